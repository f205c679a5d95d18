// What PyTorch's exporter wrote down of the model that it exported: its whole
// state, what each initializer is, and which state each node used.

#pragma once

#include <map>
#include <string>
#include <vector>

#include "frontends/onnx/Model.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"

namespace polyrank::frontends::onnx {

/// An entry of the model's state_dict, or a buffer that is not part of it.
struct StateEntry {
  enum class Kind { Parameter, Buffer, Other };
  std::string name;
  Kind kind = Kind::Other;
  bool persistent = false;
};

/// The call of a PyTorch operator from which a node was made, `aten.linear` of
/// (x, `fc.weight`): the operator's name, and of each argument that is a tensor
/// the state that it is, or null.
struct FxCall {
  llvm::StringRef target; // "aten.linear.default"
  llvm::SmallVector<const StateEntry *> arguments;
  /// What the exporter called them, by argument: "p_fc_weight", "add_3".
  llvm::SmallVector<llvm::StringRef> names;

  bool isLinear() const { return target.starts_with("aten.linear."); }
  bool isBatchNorm() const { return target.contains("batch_norm"); }
};

/// A buffer that the model's forward changes, and the value of the graph that
/// it becomes (which need not be there).
struct BufferChange {
  std::string buffer;
  llvm::StringRef value;
};

class ExportRecord {
public:
  explicit ExportRecord(const Model &model);

  /// The whole state, in the model's order; empty where the file does not say.
  /// Tied parameters have an entry under each name.
  llvm::ArrayRef<StateEntry> getState() const { return state; }
  const StateEntry *findState(llvm::StringRef name) const;

  /// Whether the file says of initializers what they are.
  bool hasRoles() const { return !roles.empty(); }
  /// What it says of initializer `name`: null where it says nothing.
  const StateEntry *findRole(llvm::StringRef name) const;

  llvm::ArrayRef<BufferChange> getChanges() const { return changes; }

  FxCall callOf(const Node &node) const;

  /// The names from which the exporter's optimizer computed an initializer.
  llvm::ArrayRef<llvm::StringRef> getSources(llvm::StringRef name) const;
  /// Whether an optimizer put the node in the place of several.
  static bool isRewritten(const Node &node);
  /// Whether an optimizer has changed the model.
  bool isOptimized() const { return optimized; }

private:
  void readInputs(llvm::StringRef text);
  void readOutputs(llvm::StringRef text, const Graph &graph);
  void readValue(const ValueInfo &value);

  std::vector<StateEntry> state;
  std::vector<BufferChange> changes;
  llvm::StringMap<size_t> byName, byPlaceholder;
  llvm::StringMap<StateEntry> roles;
  llvm::StringMap<llvm::SmallVector<llvm::StringRef>> sources;
  bool optimized = false;
};

} // namespace polyrank::frontends::onnx
