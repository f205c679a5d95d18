// The part of a step after its gradients: the updates of parameters.

#pragma once

#include "dialects/graph/Boundary.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"

namespace polyrank::sharding {

/// The update of one parameter.
struct Update {
  graph::GradientOp gradient;
  mlir::BlockArgument parameter;
  /// For the parameter, then for each of its states: the number of its
  /// argument, and of the result that replaces it.
  llvm::SmallVector<std::pair<unsigned, unsigned>> boundary;
  /// The ops that compute new elements from the elements of gradient, parameter
  /// and state at the same index, up to the new parameter and states, in the
  /// order of the block: elementwise ops on the parameter's shape, reshards,
  /// splats, and broadcasts of scalars. Splats and broadcasts may belong to
  /// several updates.
  llvm::SetVector<mlir::Operation *> own;

  llvm::ArrayRef<int64_t> getShape() const {
    return llvm::cast<mlir::RankedTensorType>(parameter.getType()).getShape();
  }
};

/// Returns true if the op has the same value at each index, whatever the
/// layout: a splat, a broadcast of a scalar, or a reshard of one of these.
bool isUniform(mlir::Operation *op);

struct UpdateOps {
  llvm::SmallVector<Update> updates;
  /// The other ops that depend on gradients, in the order of the block: norms,
  /// factors, and whatever does not work on each element alone.
  llvm::SmallVector<mlir::Operation *> shared;
};

/// Reads a step with `graph.gradient` ops. Emits an error if a gradient belongs
/// to no parameter of the step.
mlir::FailureOr<UpdateOps> findUpdates(mlir::func::FuncOp step);

} // namespace polyrank::sharding
