// Parameters of equal values that an exporter's optimizer made one.

#include "frontends/onnx/MergedParameters.h"

#include "frontends/onnx/ParameterNames.h"

using namespace llvm;

namespace polyrank::frontends::onnx {

static void separate(const Node &node, const ExportRecord &record,
                     ModelState &state) {
  FxCall call = record.callOf(node);
  // A node that stands for several has the record of one of them.
  if (none_of(call.arguments, [](const StateEntry *e) { return e; }) ||
      record.isRewritten(node))
    return;
  auto isNamed = [&](const Parameter &parameter) {
    return any_of(call.arguments, [&](const StateEntry *entry) {
      return entry && (entry->name == parameter.name ||
                       is_contained(parameter.aliases, entry->name));
    });
  };
  for (auto [i, input] : enumerate(node.inputs)) {
    auto value = state.values.find(StringRef(input));
    if (value == state.values.end())
      continue;
    ParameterUse use = value->second;
    const Parameter merged = state.parameters[use.index];
    if (isNamed(merged))
      continue;
    const StateEntry *meant = nullptr;
    auto consider = [&](const StateEntry *entry) {
      if (!entry || entry == meant)
        return false;
      auto known = state.find(entry->name);
      return !known || state.parameters[*known].tensor == merged.tensor;
    };
    // The same place, else the same kind (weight, bias), else the only one.
    if (call.arguments.size() == node.inputs.size() &&
        !call.target.starts_with("aten.addmm") && consider(call.arguments[i]))
      meant = call.arguments[i];
    SmallVector<const StateEntry *> all, alike;
    for (const StateEntry *entry : call.arguments) {
      if (meant || !consider(entry))
        continue;
      all.push_back(entry);
      if (leafOf(entry->name) == leafOf(merged.name))
        alike.push_back(entry);
    }
    if (!meant && alike.size() == 1)
      meant = alike.front();
    if (!meant && all.size() == 1)
      meant = all.front();
    if (!meant)
      continue;
    std::optional<size_t> index = state.find(meant->name);
    if (!index) {
      index = state.parameters.size();
      state.parameters.push_back({merged.tensor,
                                  meant->name,
                                  {},
                                  meant->kind == StateEntry::Kind::Parameter,
                                  merged.transposed});
    }
    state.operands[{&node, i}] = {*index, use.transposed};
  }
}

void separateMerged(const Model &model, const ExportRecord &record,
                    ModelState &state) {
  forEachNode(model.graph,
              [&](const Node &node) { separate(node, record, state); });
}

} // namespace polyrank::frontends::onnx
