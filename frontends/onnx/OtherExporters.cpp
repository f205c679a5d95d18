// Weights in files of exporters other than PyTorch's.

#include "frontends/onnx/OtherExporters.h"

#include <algorithm>
#include <set>

namespace polyrank::frontends::onnx {

bool isOfPyTorch(const Model &model) {
  return model.producer.starts_with("pytorch");
}

bool isMadeUp(const Model &model, std::string_view name) {
  bool isPath =
      name.starts_with('/') &&
      (isOfPyTorch(model) || name.find("_output_") != std::string_view::npos);
  if (name.empty() || isPath || name.starts_with("onnx::"))
    return true;
  if (!isOfPyTorch(model))
    return false;
  if (name.find("::") != std::string_view::npos)
    return true;
  if (name.starts_with("val_"))
    name.remove_prefix(4);
  return std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
}

/// Returns true if the file has PyTorch's description of its tensors.
static bool hasRecord(const Graph &graph) {
  return !find(graph.metadata,
               "pkg.torch.export.ExportedProgram.graph_signature")
              .empty() ||
         std::ranges::any_of(graph.values, [](const ValueInfo &value) {
           return !find(value.metadata,
                        "pkg.torch.export.graph_signature.InputSpec.kind")
                       .empty();
         });
}

/// Returns true for nodes that use weights or change their form; other nodes
/// (Resize, OneHot, calls of functions) may need known floats.
static bool takesWeights(const Node &node) {
  static const std::set<std::string_view> types = {"MatMul",
                                                   "Gemm",
                                                   "Conv",
                                                   "ConvTranspose",
                                                   "Einsum",
                                                   "Gather",
                                                   "LSTM",
                                                   "GRU",
                                                   "RNN",
                                                   "PRelu",
                                                   "Add",
                                                   "Sub",
                                                   "Mul",
                                                   "Div",
                                                   "Transpose",
                                                   "Reshape",
                                                   "Identity",
                                                   "Cast",
                                                   "Squeeze",
                                                   "Unsqueeze",
                                                   "Concat",
                                                   "Slice",
                                                   "Split",
                                                   "Expand",
                                                   "BatchNormalization",
                                                   "LayerNormalization",
                                                   "RMSNormalization",
                                                   "InstanceNormalization",
                                                   "GroupNormalization"};
  return node.domain.empty() && types.contains(node.type);
}

void liftConstants(Model &model) {
  if (hasRecord(model.graph))
    return;
  std::set<std::string_view> known;
  forEachNode(model.graph, [&](const Node &node) {
    if (!takesWeights(node))
      known.insert(node.inputs.begin(), node.inputs.end());
  });
  for (const ValueInfo &output : model.graph.outputs)
    known.insert(output.name);
  std::erase_if(model.graph.nodes, [&](Node &node) {
    if (node.type != "Constant" || !node.domain.empty() ||
        node.outputs.size() != 1 || node.attributes.size() != 1 ||
        isMadeUp(model, node.outputs[0]) || known.contains(node.outputs[0]))
      return false;
    Attribute &value = node.attributes.front();
    if (value.name != "value" || !value.t || !isFloat(value.t->type) ||
        value.t->dims.empty() || value.t->numElements() < 2)
      return false;
    StoredTensor &tensor =
        model.graph.initializers.emplace_back(std::move(*value.t));
    tensor.name = node.outputs[0];
    return true;
  });
}

} // namespace polyrank::frontends::onnx
