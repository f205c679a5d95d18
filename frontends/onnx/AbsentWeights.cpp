// Weights that a file declares but does not hold.

#include "frontends/onnx/AbsentWeights.h"

#include <set>

namespace polyrank::frontends::onnx {

void addAbsentWeights(Model &model) {
  std::set<std::string_view> known;
  for (const StoredTensor &tensor : model.graph.initializers)
    known.insert(tensor.name);
  std::erase_if(model.graph.inputs, [&](const ValueInfo &input) {
    std::string_view kind =
        find(input.metadata, "pkg.torch.export.graph_signature.InputSpec.kind");
    if ((kind != "PARAMETER" && kind != "BUFFER") || known.contains(input.name))
      return false;
    StoredTensor tensor;
    tensor.name = input.name;
    tensor.type = input.type;
    tensor.isAbsent = true;
    // Without a valid size it stays an input, which then gets an error.
    if (!input.shape)
      return false;
    int64_t count = 1;
    for (const Dim &dim : *input.shape) {
      if (!dim.value || *dim.value < 1 ||
          *dim.value > maxStoredElements / count)
        return false;
      count *= *dim.value;
      tensor.dims.push_back(*dim.value);
    }
    model.graph.values.push_back(input); // keeps the exporter's metadata
    model.graph.initializers.push_back(std::move(tensor));
    return true;
  });
}

} // namespace polyrank::frontends::onnx
