// Orders of a tensor's dims in memory, and what an op makes of them.

#pragma once

#include <optional>

#include "mlir/IR/Operation.h"
#include "llvm/ADT/SmallVector.h"

namespace polyrank::lowering {

/// Dim order[i] of the tensor is dim i of what lies in memory, row-major: a
/// tensor of [N, C, H, W] in order 0, 2, 3, 1 lies there as [N, H, W, C].
using DimOrder = llvm::SmallVector<int64_t, 6>;

DimOrder identityOrder(size_t rank);
/// `shape` as it lies in memory.
llvm::SmallVector<int64_t> inOrder(llvm::ArrayRef<int64_t> shape,
                                   llvm::ArrayRef<int64_t> order);
/// The permutation that takes a tensor that lies in order `from` to `to`.
llvm::SmallVector<int64_t> permutationBetween(llvm::ArrayRef<int64_t> from,
                                              llvm::ArrayRef<int64_t> to);
/// The one that stands for all orders with the same elements in the same
/// places: where dims of size 1 are means nothing. They come first, and an
/// order without effect is the identity.
DimOrder canonicalOrder(llvm::ArrayRef<int64_t> order,
                        llvm::ArrayRef<int64_t> shape);

/// How the dims of an op's operands go with those of its result. A dim is its
/// parts, major to minor; parts of one number are the same indices. What a
/// reshape of [6, 4] to [2, 12] does: {0, 1}, {2} and {0}, {1, 2}.
struct DimParts {
  using Dims = llvm::SmallVector<llvm::SmallVector<int64_t, 1>>;
  Dims operand, result;
  /// The result, or the operand, of windows has a last dim of its own.
  bool hasWindows = false;

  /// The order of the result (operand) that is natural where the operand
  /// (result) has `order`; nullopt where there is none, as where it has dims
  /// that the other lacks.
  std::optional<DimOrder> toResult(llvm::ArrayRef<int64_t> order,
                                   llvm::ArrayRef<int64_t> shape) const;
  std::optional<DimOrder> toOperand(llvm::ArrayRef<int64_t> order,
                                    llvm::ArrayRef<int64_t> shape) const;
};

/// Of an op of one result that works on its operands, all of them alike, in
/// whatever order their dims are in memory; nullopt for other ops.
std::optional<DimParts> dimPartsOf(mlir::Operation *op);

} // namespace polyrank::lowering
