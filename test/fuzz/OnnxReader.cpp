// Any bytes as an ONNX file, beside a file of external data that it may name.

#include "frontends/onnx/Model.h"
#include "test/fuzz/Input.h"

using namespace polyrank;
using namespace polyrank::frontends;

namespace {

void load(const onnx::Model &model, const onnx::StoredTensor &tensor) {
  std::vector<char> bytes;
  if (model.load(tensor, bytes))
    fuzz::touch(bytes);
}

void visit(const onnx::Model &model, const onnx::Graph &graph);

void visit(const onnx::Model &model, const std::vector<onnx::Node> &nodes) {
  for (const onnx::Node &node : nodes)
    for (const onnx::Attribute &attribute : node.attributes) {
      if (attribute.t)
        load(model, *attribute.t);
      if (attribute.g)
        visit(model, *attribute.g);
    }
}

void visit(const onnx::Model &model, const onnx::Graph &graph) {
  for (const onnx::StoredTensor &tensor : graph.initializers)
    load(model, tensor);
  visit(model, graph.nodes);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  [[maybe_unused]] static const std::string external =
      fuzz::writeFile("data", std::string(4096, '\x3f'));
  std::string path = fuzz::writeFile("model.onnx", fuzz::text(data, size));
  auto model = onnx::readModel(path);
  if (model) {
    visit(**model, (*model)->graph);
    for (const onnx::Function &function : (*model)->functions)
      visit(**model, function.nodes);
  } else if (model.error().message.find("model.onnx") == std::string::npos) {
    std::abort(); // a message names the file
  }
  (void)onnx::readTensor(fuzz::text(data, size));
  return 0;
}
