// Reverse-mode differentiation over the ops' own gradients.

#pragma once

#include "mlir/IR/Builders.h"

namespace polyrank::training {

/// Appends at the builder's insertion point the ops that compute the gradients
/// of `root` with respect to `values`, starting from the cotangent `seed` of
/// `root`. The differentiated ops are those of the builder's block. Each new op
/// carries `graph.origin`, the user's name of the op that it differentiates,
/// and that op's location and scope. The cotangents of one value are added in
/// the order in which its uses are met, last use first; the contributions of
/// many slices of one value come last (see SliceGradients). The gradient of a
/// value on which `root` does not depend is null. Errors name ops without a
/// gradient.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
buildGradients(mlir::OpBuilder &builder, mlir::Value root, mlir::Value seed,
               mlir::ValueRange values);

} // namespace polyrank::training
