// Which ranks run which function.
//
// Without a pipeline one function, `@step`, is run by all ranks. With one there
// is a function for each coordinate of the pipe axis, which says so:
// `rank.at = {pipe = 1 : i64}`.

#pragma once

#include "dialects/rank/Rank.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace polyrank::rank {

/// Functions that ranks run at the same time, and the mesh of these ranks.
class Programs {
public:
  /// The functions with a place of `module`. Emits an error where they are not
  /// one for each coordinate of the axes that their places name, or communicate
  /// over several meshes. Empty where no function has a place.
  static mlir::FailureOr<Programs> of(mlir::ModuleOp module);

  llvm::ArrayRef<mlir::func::FuncOp> getFunctions() const { return functions; }
  bool empty() const { return functions.empty(); }
  sharding::MeshAttr getMesh() const { return mesh; }
  /// The mesh axes on whose coordinates the function depends, ascending.
  llvm::ArrayRef<int32_t> getAxes() const { return axes; }
  /// The function of those whose index over the axes is `i`, by its number.
  llvm::ArrayRef<int32_t> getFunctionOf() const { return functionOf; }

  /// Whether device `device` of the mesh runs function number `number`.
  bool runs(int64_t number, int64_t device) const;

private:
  llvm::SmallVector<mlir::func::FuncOp> functions;
  sharding::MeshAttr mesh;
  llvm::SmallVector<int32_t> axes, functionOf;
};

/// The mesh of a function: that of what it communicates, or else of its
/// arguments and results; null where it has none.
sharding::MeshAttr getMesh(mlir::func::FuncOp function);

/// Of a function with a place, the coordinate along the mesh axis of this
/// number; nullopt where ranks with any coordinate run it.
std::optional<int64_t> getCoordinate(mlir::Operation *function,
                                     sharding::MeshAttr mesh, int32_t axis);
/// Whether device `device` runs it. True for a function without a place.
bool runsOn(mlir::Operation *function, sharding::MeshAttr mesh, int64_t device);

/// Whether some members of the collective's group run another function than
/// others. Their order among all that is communicated is that of the functions,
/// so nothing may change it in one of them alone.
bool spansPrograms(CollectiveOp op);

/// What both ends of a transfer have.
struct Transfer {
  AxesAttr axes;
  int64_t from = 0, to = 0, id = 0, slots = 0;
  mlir::RankedTensorType type;
  BufferAttr channel; // null before buffers are assigned
  bool isSend = false;

  /// The ranks that send and receive, of those that differ from `device` in the
  /// axes only.
  int64_t getSender(int64_t device) const { return getMember(device, from); }
  int64_t getReceiver(int64_t device) const { return getMember(device, to); }

private:
  int64_t getMember(int64_t device, int64_t index) const {
    return axes.getMesh().getGroup(device, axes.getAxes())[index];
  }
};

/// nullopt of what is neither a send nor a receive.
std::optional<Transfer> getTransfer(mlir::Operation *op);

} // namespace polyrank::rank
