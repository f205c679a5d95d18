// Any bytes as a `.pt2` file, and as the JSON that is in one.

#include "frontends/exported_program/Archive.h"
#include "frontends/exported_program/Outputs.h"
#include "frontends/exported_program/Symbols.h"
#include "test/fuzz/Input.h"

using namespace polyrank;
using namespace polyrank::frontends;
using namespace polyrank::frontends::exported_program;

namespace {

void useProgram(const Program &program) {
  (void)nameOutputs(program.outputTree, program.outputs.size());
  for (const auto &[name, tensor] : program.graph.tensors)
    for (const SymbolicInt &size : tensor.sizes) {
      SymbolicExpression expression(size.expression);
      // A printed expression is parsed back to the same value.
      auto valueOf = [](llvm::StringRef symbol) -> std::optional<int64_t> {
        return static_cast<int64_t>(symbol.size());
      };
      auto value = expression.evaluate(valueOf);
      std::string shown = expression.toString();
      if (value && shown.size() <= SymbolicExpression::maxLength &&
          SymbolicExpression(shown).evaluate(valueOf) != value)
        std::abort();
    }
}

void useTensor(const Archive &archive,
               const Result<archive::StoredTensor> &tensor, size_t fileSize) {
  if (!tensor) {
    if (tensor.error().message.find(archive.path()) == std::string::npos)
      std::abort(); // a message names the file
    return;
  }
  if (tensor->storageLength > fileSize ||
      tensor->storageBegin > fileSize - tensor->storageLength)
    std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string text(fuzz::text(data, size));
  if (!text.starts_with("PK")) {
    Budget budget(size);
    if (auto program = readProgram(text, "model.json", budget))
      useProgram(*program);
    else if (!program.error().message.starts_with("model.json: "))
      std::abort();
    (void)readPayloads(text, "config.json", budget);
    return 0;
  }
  std::string path = fuzz::writeFile("model.pt2", text);
  auto archive = Archive::open(path);
  if (!archive) {
    if (archive.error().message.find(path) == std::string::npos)
      std::abort();
    return 0;
  }
  useProgram((*archive)->getProgram());
  for (const InputSpec &spec : (*archive)->getProgram().inputs) {
    useTensor(**archive, (*archive)->findWeight(spec.target), size);
    useTensor(**archive, (*archive)->findConstant(spec.target), size);
  }
  return 0;
}
