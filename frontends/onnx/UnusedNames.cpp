// Names of tied parameters that no node gives.

#include "frontends/onnx/UnusedNames.h"

#include "frontends/onnx/Origin.h"
#include "frontends/onnx/ParameterNames.h"
#include "support/Names.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;

namespace polyrank::frontends::onnx {

static bool isTied(const Parameter &parameter) {
  return !parameter.aliases.empty();
}

/// The only parameter of the same kind in a nested layer, if that layer's
/// weight is tied.
static std::optional<size_t> findTiedBias(const ModelState &state,
                                          StringRef name) {
  std::optional<size_t> found;
  if (moduleOf(name).empty() || leafOf(name) != "bias")
    return found;
  for (auto [index, parameter] : enumerate(state.parameters)) {
    StringRef module = moduleOf(parameter.name);
    if (leafOf(parameter.name) != "bias" || moduleOf(module) != moduleOf(name))
      continue;
    auto weight = state.find(nameIn(module, "weight"));
    if (!weight || !isTied(state.parameters[*weight]))
      continue;
    if (found)
      return std::nullopt;
    found = index;
  }
  return found;
}

/// The only tied matrix, for a weight called `shared`: such a module comes
/// before all others that use the matrix, and has no other state.
static std::optional<size_t> findShared(const ExportRecord &record,
                                        const ModelState &state,
                                        StringRef name) {
  StringRef module = moduleOf(name);
  if (leafOf(name) != "weight" || leafOf(module) != "shared")
    return std::nullopt;
  std::optional<size_t> found;
  for (auto [index, parameter] : enumerate(state.parameters)) {
    if (!isTied(parameter) || parameter.tensor->dims.size() != 2)
      continue;
    if (found)
      return std::nullopt;
    found = index;
  }
  if (!found)
    return std::nullopt;
  const Parameter &parameter = state.parameters[*found];
  bool isBefore = false;
  for (const StateEntry &entry : record.getState()) {
    if (entry.name != name && moduleOf(entry.name) == module)
      return std::nullopt;
    bool isOther = entry.name == parameter.name ||
                   is_contained(parameter.aliases, entry.name);
    if (isOther && !isBefore)
      return std::nullopt;
    isBefore |= entry.name == name;
  }
  return found;
}

void adoptUnused(const Model &model, const ExportRecord &record,
                 ModelState &state) {
  StringSet<> computed, called;
  for (const StoredTensor &tensor : model.graph.initializers)
    for (StringRef source : record.getSources(tensor.name))
      computed.insert(source);
  forEachNode(model.graph,
              [&](const Node &node) { called.insert(originOf(node).scope); });
  std::map<size_t, std::vector<std::string>> adopted;
  for (const StateEntry &entry : record.getState()) {
    if (entry.kind != StateEntry::Kind::Parameter ||
        computed.contains(entry.name) || state.find(entry.name))
      continue;
    std::optional<size_t> index = findTiedBias(state, entry.name);
    if (!index && !called.contains(moduleOf(entry.name)))
      index = findShared(record, state, entry.name);
    if (!index)
      continue;
    adopted[*index].push_back(entry.name);
  }
  for (auto &[index, names] : adopted) {
    Parameter &parameter = state.parameters[index];
    state.notes.push_back(groupNames(names) + ", which nothing uses, " +
                          (names.size() == 1
                               ? "is taken as a further name of `"
                               : "are taken as further names of `") +
                          parameter.name + "`, and saved with it");
    llvm::append_range(parameter.aliases, names);
  }
}

} // namespace polyrank::frontends::onnx
