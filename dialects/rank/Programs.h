// The functions of a module, and which ranks run each of them.
//
// Without a pipeline all ranks run one function, `@step`. With a pipeline there
// is a function for each coordinate of the pipe axis, marked with that
// coordinate: `rank.at = {pipe = 1 : i64}`.

#pragma once

#include "dialects/rank/Rank.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace polyrank::rank {

/// Functions that ranks run at the same time, and the mesh of these ranks.
class Programs {
public:
  /// Returns the functions of `module` that have a place; empty if none has.
  /// Emits an error unless there is one function for each coordinate of the
  /// axes that the places name, and all communicate over one mesh.
  static mlir::FailureOr<Programs> of(mlir::ModuleOp module);

  llvm::ArrayRef<mlir::func::FuncOp> getFunctions() const { return functions; }
  bool empty() const { return functions.empty(); }
  sharding::MeshAttr getMesh() const { return mesh; }
  /// The mesh axes on whose coordinates the function depends, ascending.
  llvm::ArrayRef<int32_t> getAxes() const { return axes; }
  /// By index i over the axes: the number of the function that ranks with that
  /// index run.
  llvm::ArrayRef<int32_t> getFunctionOf() const { return functionOf; }

  /// Returns true if device `device` of the mesh runs function number `number`.
  bool runs(int64_t number, int64_t device) const;

private:
  llvm::SmallVector<mlir::func::FuncOp> functions;
  sharding::MeshAttr mesh;
  llvm::SmallVector<int32_t> axes, functionOf;
};

/// The mesh over which a function communicates, or else that of its arguments
/// and results; null if it has none.
sharding::MeshAttr getMesh(mlir::func::FuncOp function);

/// The coordinate of a function's place along mesh axis number `axis`; nullopt
/// if ranks with any coordinate run it.
std::optional<int64_t> getCoordinate(mlir::Operation *function,
                                     sharding::MeshAttr mesh, int32_t axis);
/// Returns true if device `device` runs the function, which holds for all
/// devices if it has no place.
bool runsOn(mlir::Operation *function, sharding::MeshAttr mesh, int64_t device);

/// Returns true if the members of the collective's group run different
/// functions. The order of such collectives among all communication is common
/// to these functions, so no pass may change it in one of them alone.
bool spansPrograms(CollectiveOp op);

/// The properties that both ends of a transfer have.
struct Transfer {
  AxesAttr axes;
  int64_t from = 0, to = 0, id = 0, slots = 0;
  mlir::RankedTensorType type;
  bool isSend = false;

  /// The sender and the receiver among the ranks that differ from `device` in
  /// the axes only.
  int64_t getSender(int64_t device) const { return getMember(device, from); }
  int64_t getReceiver(int64_t device) const { return getMember(device, to); }

private:
  int64_t getMember(int64_t device, int64_t index) const {
    return axes.getMesh().getGroup(device, axes.getAxes())[index];
  }
};

/// Returns nullopt for an op that is neither a send nor a receive.
std::optional<Transfer> getTransfer(mlir::Operation *op);

/// The bytes that the communicator takes for the values which the function
/// sends: one channel for each id, whatever the number of its sends.
int64_t getChannelBytes(mlir::func::FuncOp function);

} // namespace polyrank::rank
