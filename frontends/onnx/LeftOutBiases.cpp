// Biases that the exporter's optimizer removed because they were zero.

#include "frontends/onnx/LeftOutBiases.h"

#include "frontends/onnx/Origin.h"
#include "support/Names.h"

using namespace llvm;

namespace polyrank::frontends::onnx {

static int64_t getInt(const Node &node, std::string_view name,
                      int64_t otherwise) {
  for (const Attribute &attribute : node.attributes)
    if (attribute.name == name)
      return attribute.i;
  return otherwise;
}

/// The number of outputs of the layer per element or pixel, which is the only
/// dim of the bias; 0 if it is no such layer.
static int64_t countOutputs(const Node &node, ArrayRef<int64_t> weight) {
  if (node.type == "Conv" && weight.size() >= 3)
    return weight[0];
  if (node.type == "ConvTranspose" && weight.size() >= 3)
    return weight[1] * getInt(node, "group", 1);
  if (node.type == "Gemm" && weight.size() == 2)
    return weight[getInt(node, "transB", 0) ? 0 : 1];
  return 0;
}

/// The parameter that the node's operator used and the file lacks, if there is
/// exactly one: the bias.
static const StateEntry *findLost(const FxCall &call, const ModelState &state,
                                  const StringMap<size_t> &recovered) {
  const StateEntry *lost = nullptr;
  for (const StateEntry *entry : call.arguments) {
    if (!entry || entry->kind != StateEntry::Kind::Parameter)
      continue;
    bool isThere = any_of(state.parameters, [&](const Parameter &parameter) {
      return parameter.name == entry->name ||
             is_contained(parameter.aliases, entry->name);
    });
    if (isThere && !recovered.contains(entry->name))
      continue;
    if (lost)
      return nullptr;
    lost = entry;
  }
  return lost;
}

void recoverBiases(const Model &model, const ExportRecord &record,
                   ModelState &state) {
  StringMap<size_t> recovered;
  std::vector<std::string> names;
  forEachNode(model.graph, [&](const Node &node) {
    StringRef rule(find(node.metadata, "pkg.onnxscript.rewriter.rule_name"));
    if (!rule.starts_with("RemoveOptionalBias") || node.inputs.size() != 2)
      return;
    auto weight = state.values.find(StringRef(node.inputs[1]));
    if (weight == state.values.end())
      return;
    const ParameterUse &use = weight->second;
    const Parameter &layer = state.parameters[use.index];
    // The weight as the node sees it, which may be the transpose of the
    // parameter.
    std::vector<int64_t> dims = layer.getDims();
    if (use.transposed)
      std::reverse(dims.begin(), dims.end());
    int64_t outputs = countOutputs(node, dims);
    const StateEntry *bias = findLost(record.callOf(node), state, recovered);
    if (!bias || outputs == 0)
      return;
    auto [known, isNew] =
        recovered.try_emplace(bias->name, state.parameters.size());
    if (isNew) {
      MadeTensor &made =
          *state.made.emplace_back(std::make_unique<MadeTensor>());
      made.type = layer.tensor->type;
      made.dims = {outputs};
      made.decoded.resize(outputs * bytesOf(made.type));
      made.bytes = {made.decoded.data(), made.decoded.size()};
      made.name = made.ownName = bias->name;
      state.parameters.push_back({&made, bias->name, {}, true});
      names.push_back(bias->name);
    }
    Parameter &parameter = state.parameters[known->second];
    if (parameter.tensor->dims[0] != outputs)
      return;
    state.operands[{&node, 2}] = {known->second};
    // The record always uses the same name for a tied bias.
    std::string ownName = originOf(node).scope + "." +
                          StringRef(parameter.name).rsplit('.').second.str();
    if (ownName != parameter.name && record.findState(ownName) &&
        !is_contained(parameter.aliases, ownName))
      parameter.aliases.push_back(ownName);
  });
  if (!names.empty())
    state.notes.push_back(
        std::to_string(names.size()) +
        (names.size() == 1 ? " bias" : " biases") +
        " of zeros that the exporter left out " +
        (names.size() == 1 ? "is a parameter" : "are parameters") +
        " again: " + groupNames(names));
}

} // namespace polyrank::frontends::onnx
