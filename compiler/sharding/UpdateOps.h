// The part of a step behind its gradients: what becomes of each parameter.

#pragma once

#include "dialects/graph/Boundary.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"

namespace polyrank::sharding {

/// How one parameter becomes a new one.
struct Update {
  graph::GradientOp gradient;
  mlir::BlockArgument parameter;
  /// The parameter, then its states: the numbers of the arguments and of the
  /// results that take their places.
  llvm::SmallVector<std::pair<unsigned, unsigned>> boundary;
  /// The ops that compute new elements from those of gradient, parameter and
  /// state at the same index, up to the next of these, in the order of the
  /// block: elementwise ops on the parameter's shape, reshards, splats, and
  /// broadcasts of scalars. Splats and broadcasts may belong to other updates
  /// too.
  llvm::SetVector<mlir::Operation *> own;

  llvm::ArrayRef<int64_t> getShape() const {
    return llvm::cast<mlir::RankedTensorType>(parameter.getType()).getShape();
  }
};

/// Whether the op has the same value at each index, whatever the layout: a
/// splat, a broadcast of a scalar, or a reshard of one of these.
bool isUniform(mlir::Operation *op);

struct UpdateOps {
  llvm::SmallVector<Update> updates;
  /// What else depends on gradients, in the order of the block: norms, factors,
  /// and whatever does not work on each element alone.
  llvm::SmallVector<mlir::Operation *> shared;
};

/// Reads a step with `graph.gradient` ops. Emits an error where one is of no
/// parameter of the step.
mlir::FailureOr<UpdateOps> findUpdates(mlir::func::FuncOp step);

} // namespace polyrank::sharding
