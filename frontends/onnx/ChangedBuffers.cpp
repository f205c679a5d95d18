// Buffers that the model's forward changes: moving averages, codebooks, queues.

#include "frontends/onnx/ChangedBuffers.h"

#include "frontends/onnx/Origin.h"
#include "frontends/onnx/ParameterNames.h"
#include "support/Names.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;

namespace polyrank::frontends::onnx {

/// Returns true if a node of the main graph computes `value`, or if it is an
/// input or initializer.
static bool isValue(const Model &model, std::string_view value) {
  auto isNamed = [&](const auto &each) { return each.name == value; };
  return any_of(model.graph.nodes,
                [&](const Node &node) {
                  return is_contained(node.outputs, value);
                }) ||
         any_of(model.graph.inputs, isNamed) ||
         any_of(model.graph.initializers, isNamed);
}

bool isChanged(const Model &model, const ExportRecord &record, StringRef name) {
  return any_of(record.getChanges(), [&](const BufferChange &change) {
    return change.buffer == name && isValue(model, change.value);
  });
}

/// Returns true for the names of batch normalization's statistics.
static bool isStatistic(StringRef name) {
  StringRef leaf = leafOf(name);
  return leaf.starts_with("running_") || leaf == "num_batches_tracked";
}

/// Adds the running statistics of instance norms. The exporter does not even
/// record their changes: it only writes the norm of each sample.
static void addOfInstanceNorms(const Model &model, const ExportRecord &record,
                               const ModelState &state,
                               std::vector<std::string> &names) {
  StringSet<> modules;
  forEachNode(model.graph, [&](const Node &node) {
    if (node.type == "InstanceNormalization")
      modules.insert(originOf(node).scope);
  });
  for (const StateEntry &entry : record.getState())
    if (entry.kind == StateEntry::Kind::Buffer &&
        leafOf(entry.name).starts_with("running_") &&
        modules.contains(moduleOf(entry.name)) && !state.find(entry.name))
      names.push_back(entry.name);
}

void findChangedBuffers(const Model &model, const ExportRecord &record,
                        const Consumers &consumers, ModelState &state) {
  std::vector<std::string> unsaved, lost, transient;
  for (const BufferChange &change : record.getChanges()) {
    const std::string &name = change.buffer;
    std::optional<size_t> index = state.find(name);
    auto uses = consumers.find(
        index ? StringRef(state.parameters[*index].tensor->name) : name);
    bool isRead = uses != consumers.end() && !uses->second.empty();
    auto isOfBatchNorm = [](std::pair<const Node *, size_t> use) {
      return use.first->type == "BatchNormalization" && use.second >= 3;
    };
    if (isRead && any_of(uses->second, isOfBatchNorm))
      continue;
    bool isThere = isValue(model, change.value);
    bool isFolded = any_of(model.graph.initializers, [&](const auto &tensor) {
      return is_contained(record.getSources(tensor.name), name) &&
             consumers.contains(tensor.name) &&
             !state.folded.contains(tensor.name);
    });
    if (index && isThere && !isFolded) {
      state.updates.push_back({*index, name, change.value.str()});
      continue;
    }
    const StateEntry *entry = record.findState(name);
    bool isTransient = entry && !entry->persistent;
    // An optimizer may have computed constants from the buffer.
    bool mayBeRead =
        isRead || isFolded || (record.isOptimized() && !isStatistic(name));
    if (isRead && isThere && isTransient && !isFolded)
      transient.push_back(name);
    else if (mayBeRead)
      lost.push_back(name);
    else if (!isTransient && !isStatistic(name))
      unsaved.push_back(name);
  }
  addOfInstanceNorms(model, record, state, unsaved);
  std::vector<std::string> stale;
  if (!lost.empty())
    stale.push_back(
        "the model's forward changes " + groupNames(lost) +
        ", but the file lacks what " +
        (lost.size() == 1 ? "it becomes" : "they become") +
        ", which the exporter left out or computed: in each step " +
        (lost.size() == 1 ? "it" : "they") +
        " would be as at the start. Export with torch.export.export to .pt2, "
        "which keeps such changes");
  if (!transient.empty())
    stale.push_back(groupNames(transient) +
                    (transient.size() == 1 ? " is" : " are") +
                    " changed by the model's forward, but not saved with it; "
                    "register with persistent=True");
  state.staleBuffers = join(stale, "\n  ");
  if (!unsaved.empty())
    state.warnings.push_back(
        "the model's forward changes " + groupNames(unsaved) +
        ", which the file does not hold since no output needs " +
        (unsaved.size() == 1 ? "it" : "them") +
        ": neither kept up to date nor saved. Export with torch.export.export "
        "to .pt2, which keeps all");
}

} // namespace polyrank::frontends::onnx
