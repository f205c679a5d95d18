// Reports what the export did to the model's parameters.

#include "frontends/onnx/StateReport.h"

#include "frontends/emit/Emitter.h"
#include "frontends/onnx/OtherExporters.h"
#include "support/Names.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;
using polyrank::groupNames;

namespace polyrank::frontends::onnx {

namespace {

constexpr const char keepAll[] =
    "torch.onnx.export(model, args, \"model.onnx\", dynamo=True, "
    "optimize=False)";

struct Fate {
  std::vector<std::string> computed, convolved, absent, fused;
  /// In files that do not tell what is a parameter: tensors whose names say
  /// that the exporter computed them.
  std::vector<std::string> nameless;
  int64_t namelessElements = 0;
};

/// The fate of the parameters that the record lists and the file lacks.
Fate findFate(const Model &model, const ExportRecord &record,
              const ModelState &state) {
  StringSet<> present, computed, normalized, used;
  for (const Parameter &parameter : state.parameters) {
    present.insert(parameter.name);
    for (const std::string &alias : parameter.aliases)
      present.insert(alias);
  }
  Fate fate;
  forEachNode(model.graph, [&](const Node &node) {
    for (std::string_view input : node.inputs)
      used.insert(input);
    bool isOldFusion = node.type == "Conv" && node.inputs.size() > 2 &&
                       StringRef(node.inputs[1]).starts_with("onnx::");
    FxCall call = record.callOf(node);
    if (node.type != "Conv" || (!call.isBatchNorm() && !isOldFusion))
      return;
    for (const StateEntry *entry : call.arguments)
      if (entry)
        normalized.insert(entry->name);
    if (auto weight = state.values.find(StringRef(node.inputs[1]));
        weight != state.values.end())
      fate.fused.push_back(state.parameters[weight->second.index].name);
  });
  for (const StoredTensor &tensor : model.graph.initializers) {
    if (!used.contains(tensor.name) || state.values.contains(tensor.name) ||
        state.folded.contains(tensor.name))
      continue;
    for (StringRef source : record.getSources(tensor.name))
      computed.insert(source);
    int64_t elements = countElements(tensor.dims);
    if (record.hasRoles() || !isFloat(tensor.type) || elements <= 1)
      continue;
    fate.nameless.push_back(std::string(tensor.name));
    fate.namelessElements += elements;
  }
  for (const StateEntry &entry : record.getState()) {
    if (entry.kind != StateEntry::Kind::Parameter ||
        present.contains(entry.name))
      continue;
    (computed.contains(entry.name)     ? fate.computed
     : normalized.contains(entry.name) ? fate.convolved
                                       : fate.absent)
        .push_back(entry.name);
  }
  return fate;
}

/// Returns true if the exporter named a value after an op that computes new
/// elements, "tanh_3", not after a view.
bool isComputed(StringRef name) {
  return is_contained({"add",        "sub",     "mul",  "div",   "tanh",
                       "exp",        "sigmoid", "relu", "abs",   "neg",
                       "pow",        "log",     "sqrt", "rsqrt", "square",
                       "reciprocal", "sin",     "cos",  "sum",   "mean",
                       "softplus",   "softmax", "silu", "gelu"},
                      name.split('_').first);
}

} // namespace

/// The exporter's optimizer removes `x + c` and `x * c` if it computed the
/// scalar `c` as 0 and 1, and uses a parameter instead of a constant with the
/// same elements, both without a message. But the record of the node that uses
/// the result still names what is gone.
void warnOfRemoved(const Model &model, const ExportRecord &record,
                   ModelState &state) {
  StringSet<> defined;
  for (const StoredTensor &tensor : model.graph.initializers)
    defined.insert(tensor.name);
  forEachNode(model.graph,
              [&](const Node &node) { defined.insert_range(node.outputs); });
  std::vector<std::string> scalars, removed, merged;
  for (const Parameter &parameter : state.parameters)
    if (parameter.trainable && parameter.tensor->dims.empty())
      scalars.push_back(parameter.name);
  forEachNode(model.graph, [&](const Node &node) {
    FxCall call = record.callOf(node);
    auto isLost = [&](StringRef name) {
      return isComputed(name) && !defined.contains(name);
    };
    auto lost = find_if(call.names, isLost);
    if (lost == call.names.end() || ExportRecord::isRewritten(node))
      return;
    size_t before = merged.size();
    for (std::string_view input : node.inputs) {
      auto value = state.values.find(StringRef(input));
      if (value == state.values.end())
        continue;
      const Parameter &parameter = state.parameters[value->second.index];
      bool isNamed = any_of(call.arguments, [&](const StateEntry *entry) {
        return entry && (entry->name == parameter.name ||
                         is_contained(parameter.aliases, entry->name));
      });
      if (!isNamed)
        merged.push_back("`" + lost->str() + "` by `" + parameter.name + "`");
    }
    if (merged.size() > before)
      return;
    for (StringRef name : call.names)
      if (isLost(name) &&
          is_contained({"add", "sub", "mul", "div"}, name.split('_').first) &&
          !is_contained(removed, name))
        removed.push_back(name.str());
  });
  std::string wayOut =
      "\n  Export it with " + std::string(keepAll) + " to keep all";
  if (!merged.empty())
    state.warnings.push_back(
        "the exporter replaced " + join(merged, ", ") +
        ", whose elements were equal when the model was exported, and are not "
        "when it is trained" +
        wayOut);
  if (!removed.empty() && !scalars.empty())
    state.warnings.push_back(
        "the exporter removed " + groupNames(removed) +
        ", which added 0 or multiplied by 1. If that was computed from a "
        "parameter, such as " +
        groupNames(scalars) + ", this use of it has no gradient" + wayOut);
}

void reportState(const Model &model, const ExportRecord &record,
                 ModelState &state) {
  size_t recovered = 0;
  for (const Parameter &parameter : state.parameters)
    recovered += parameter.transposed;
  if (recovered)
    state.notes.push_back(
        std::to_string(recovered) +
        (recovered == 1 ? " weight is" : " weights are") +
        " transposed and nameless in the file; its metadata gives the names "
        "back, and what is saved has the model's orientation");

  warnOfRemoved(model, record, state);
  Fate fate = findFate(model, record, state);
  int64_t trained = 0;
  for (const Parameter &parameter : state.parameters)
    if (parameter.trainable)
      trained += parameter.tensor->numElements();
  if (!fate.nameless.empty()) {
    bool isNearlyAll = trained < fate.namelessElements / 20;
    (isNearlyAll ? state.untrained : state.warnings.emplace_back()) =
        "of what the exporter computed, " +
        std::to_string(fate.namelessElements) + " elements in " +
        std::to_string(fate.nameless.size()) +
        (fate.nameless.size() == 1 ? " tensor" : " tensors") +
        " are constants; parameters among them are neither trained nor "
        "saved: " +
        groupNames(fate.nameless) +
        (isNearlyAll ? "\n  Only " + std::to_string(trained) +
                           " elements would be trained. Name what is a "
                           "parameter with --train-only PATTERN"
                     : "") +
        "\n  Export it with " + std::string(keepAll) + " to keep all";
  }
  if (!record.hasRoles() && !isOfPyTorch(model) && trained > 0) {
    std::vector<std::string> names;
    for (const Parameter &parameter : state.parameters)
      if (parameter.trainable)
        names.push_back(parameter.name);
    state.notes.push_back(
        "the file does not say which of its tensors are parameters: all of "
        "floats are trained, " +
        groupNames(names) + "; choose with --freeze and --train-only");
  }
  size_t lost = fate.computed.size() + fate.convolved.size();
  if (record.isOptimized())
    lost += fate.absent.size();
  if (lost == 0 && fate.fused.empty()) {
    if (!fate.absent.empty())
      state.notes.push_back(
          "the file lacks " + groupNames(fate.absent) +
          ": nothing uses them, or they are further names of tied parameters");
    return;
  }
  size_t all = 0;
  for (const StateEntry &entry : record.getState())
    all += entry.kind == StateEntry::Kind::Parameter;
  std::string text = "the exporter has optimized this model";
  if (lost)
    text += ": of its " + std::to_string(all) + " parameters it lacks " +
            std::to_string(lost) + ", which are neither trained nor saved";
  auto list = [&](StringRef what, ArrayRef<std::string> names) {
    if (!names.empty())
      text += "\n  " + what.str() + ": " + groupNames(names);
  };
  list("computed into constants", fate.computed);
  list("merged into convolutions", fate.convolved);
  if (record.isOptimized())
    list("left out (zero biases, unused ones, a tied parameter's other name)",
         fate.absent);
  list("hold convolution and batch norm in one, under the name of the "
       "convolution; what is saved does not fit a model with batch norms",
       fate.fused);
  text += "\n  Export it with " + std::string(keepAll) + " to keep all";
  state.warnings.push_back(text);
}

} // namespace polyrank::frontends::onnx
