// Any bytes as a TorchScript file: its modules, tensors and code.

#include "frontends/torchscript/Archive.h"
#include "test/fuzz/Input.h"

#include <set>

using namespace polyrank;
using namespace polyrank::frontends;
using namespace polyrank::frontends::torchscript;
using archive::PickleValue;

namespace {

void visit(const Archive &model, const PickleValue &value, size_t fileSize,
           std::set<const PickleValue *> &seen) {
  if (!seen.insert(&value).second)
    return;
  if (value.tensor) {
    auto tensor = model.locate(*value.tensor, Archive::Folder::Data, "weight");
    if (tensor) {
      if (tensor->storageLength > fileSize ||
          tensor->storageBegin > fileSize - tensor->storageLength)
        std::abort();
      uint64_t end = tensor->storageBegin + tensor->storageLength;
      archive::forEachElement(*tensor, [&](uint64_t at) {
        if (at < tensor->storageBegin || at + bytesOf(tensor->type) > end)
          std::abort();
      });
    }
  }
  if (value.is(PickleValue::Kind::Object)) {
    auto found = model.findClass(value.text);
    if (found && found->definition)
      for (const Function &method : found->definition->methods)
        for (const Statement &statement : method.body)
          model.sourceOf(found->module, statement.offset);
  }
  for (const PickleValue *element : value.elements)
    visit(model, *element, fileSize, seen);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string path = fuzz::writeFile("model.pt", fuzz::text(data, size));
  auto model = Archive::open(path);
  if (!model) {
    if (model.error().message.find(path) == std::string::npos)
      std::abort(); // a message names the file
    return 0;
  }
  std::set<const PickleValue *> seen;
  visit(**model, (*model)->getModule(), size, seen);
  for (const PickleValue *constant : (*model)->getConstants())
    visit(**model, *constant, size, seen);
  (*model)->getTracedInputs();
  return 0;
}
