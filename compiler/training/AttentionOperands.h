// The operands of an attention, without what exporters put between.

#pragma once

#include "dialects/graph/Graph.h"

namespace polyrank::training {

/// The factor of a product or quotient with a constant, or of a negation, and
/// what it multiplies; null if `op` is none.
mlir::Value readFactor(mlir::Operation *op, double &factor);
/// Strips constant factors from `value`, also where transposes and reshapes
/// come after them, and multiplies `scale` by them.
mlir::Value withoutFactors(mlir::OpBuilder &builder, mlir::Value value,
                           double &scale);
/// Transposes `value`; a transpose that comes before becomes part of it, also
/// with a reshape between both that adds or drops dims of size 1, or that
/// merges or splits dims before the last two, which both swap.
mlir::Value permuted(mlir::OpBuilder &builder, mlir::Value value,
                     llvm::ArrayRef<int64_t> order);
/// Keys or values [batch, heads, keys, width] whose heads are repeated: those
/// that are, [batch, groups, keys, width].
mlir::Value withoutRepeatedHeads(mlir::OpBuilder &builder, mlir::Value operand);
/// The inverse, so that keys and values have as many heads.
mlir::Value repeatHeads(mlir::OpBuilder &builder, mlir::Value operand,
                        int64_t groups);
/// The product of the sizes of some dims.
int64_t sizeOf(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> dims);

} // namespace polyrank::training
