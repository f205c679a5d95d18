// What PyTorch's exporter recorded about the model that it exported: its whole
// state, the role of each initializer, and the state that each node used.

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

/// The call of a PyTorch operator from which a node was made, such as
/// `aten.linear` of (x, `fc.weight`): the name of the operator and, for each
/// tensor argument, the state entry that it is, or null.
struct FxCall {
  llvm::StringRef target; // "aten.linear.default"
  llvm::SmallVector<const StateEntry *> arguments;
  /// The exporter's name of each argument: "p_fc_weight", "add_3".
  llvm::SmallVector<llvm::StringRef> names;

  bool isLinear() const { return target.starts_with("aten.linear."); }
  bool isBatchNorm() const { return target.contains("batch_norm"); }
};

/// A buffer that the model's forward changes, and the value of the graph that
/// becomes its new value (the graph may lack it).
struct BufferChange {
  std::string buffer;
  llvm::StringRef value;
};

class ExportRecord {
public:
  explicit ExportRecord(const Model &model);

  /// The whole state, in the order of the model; empty if the file does not
  /// give it. Tied parameters have an entry under each name.
  llvm::ArrayRef<StateEntry> getState() const { return state; }
  const StateEntry *findState(llvm::StringRef name) const;

  /// Returns true if the file gives the roles of initializers.
  bool hasRoles() const { return !roles.empty(); }
  /// Returns the state entry of initializer `name`, or null if the file does
  /// not give it.
  const StateEntry *findRole(llvm::StringRef name) const;

  llvm::ArrayRef<BufferChange> getChanges() const { return changes; }

  FxCall callOf(const Node &node) const;

  /// The names of the values from which the exporter's optimizer computed an
  /// initializer.
  llvm::ArrayRef<llvm::StringRef> getSources(llvm::StringRef name) const;
  /// Returns true if an optimizer created the node as a replacement of several.
  static bool isRewritten(const Node &node);
  /// Returns true if an optimizer has changed the model.
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
