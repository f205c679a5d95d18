// Parameters that an exporter's optimizer merged because their values were
// equal.

#include "frontends/onnx/MergedParameters.h"

#include <set>

#include "frontends/onnx/Origin.h"
#include "frontends/onnx/ParameterNames.h"

using namespace llvm;

namespace polyrank::frontends::onnx {

namespace {

class Separation {
public:
  Separation(const ExportRecord &record, const Consumers &consumers,
             ModelState &state)
      : record(record), consumers(consumers), state(state) {}

  void separate(const Node &node) {
    FxCall call = record.callOf(node);
    if (call.target.empty())
      return separateByModule(node);
    // A node that replaces several has the record of only one of them.
    if (any_of(call.arguments, [](const StateEntry *e) { return e; }) &&
        !record.isRewritten(node))
      separateByCall(node, call);
  }

private:
  void separateByCall(const Node &node, const FxCall &call) {
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
      // Prefers the same operand position, then the same kind (weight, bias),
      // then the only candidate.
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
      become(node, i, use, *meant);
    }
  }

  /// A node without a record (a Split with which an optimizer replaced
  /// getitems) belongs to the module of the nodes that use its results. If an
  /// operand is a parameter of another module, it stands for this module's own
  /// parameter of the same name, if the file lacks that.
  void separateByModule(const Node &node) {
    if (none_of(node.inputs, [&](std::string_view input) {
          return state.values.contains(StringRef(input));
        }))
      return;
    std::string module = moduleBehind(node);
    for (auto [i, input] : enumerate(node.inputs)) {
      auto value = state.values.find(StringRef(input));
      if (module.empty() || value == state.values.end())
        continue;
      const Parameter &merged = state.parameters[value->second.index];
      const StateEntry *own =
          record.findState(nameIn(module, leafOf(merged.name)));
      if (own && moduleOf(merged.name) != module && !state.find(own->name))
        become(node, i, value->second, *own);
    }
  }

  /// The only module of the nodes that use the outputs, also through nodes
  /// without a record; empty if there are several.
  std::string moduleBehind(const Node &node) const {
    std::set<std::string> modules;
    std::set<const Node *> seen;
    SmallVector<const Node *> open = {&node};
    while (!open.empty()) {
      const Node *at = open.pop_back_val();
      if (!seen.insert(at).second)
        continue;
      if (!record.callOf(*at).target.empty()) {
        modules.insert(originOf(*at).scope);
        continue;
      }
      for (std::string_view output : at->outputs)
        for (auto [next, operand] : consumers.lookup(StringRef(output)))
          open.push_back(next);
    }
    return modules.size() == 1 ? *modules.begin() : "";
  }

  /// Makes the operand, which uses a parameter with equal elements, a use of
  /// `meant`.
  void become(const Node &node, size_t operand, ParameterUse use,
              const StateEntry &meant) {
    const Parameter merged = state.parameters[use.index];
    std::optional<size_t> index = state.find(meant.name);
    if (!index) {
      index = state.parameters.size();
      state.parameters.push_back({merged.tensor,
                                  meant.name,
                                  {},
                                  meant.kind == StateEntry::Kind::Parameter,
                                  merged.transposed});
    }
    state.operands[{&node, operand}] = {*index, use.transposed};
  }

  const ExportRecord &record;
  const Consumers &consumers;
  ModelState &state;
};

} // namespace

void separateMerged(const Model &model, const ExportRecord &record,
                    const Consumers &consumers, ModelState &state) {
  Separation separation(record, consumers, state);
  forEachNode(model.graph,
              [&](const Node &node) { separation.separate(node); });
}

} // namespace polyrank::frontends::onnx
