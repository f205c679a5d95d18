// Orders of a tensor's dims in memory, and how ops map them.

#pragma once

#include <optional>

#include "mlir/IR/Operation.h"
#include "llvm/ADT/SmallVector.h"

namespace polyrank::lowering {

/// Dim order[i] of the tensor is dim i in memory, row-major: a tensor of [N, C,
/// H, W] in order 0, 2, 3, 1 lies in memory as [N, H, W, C].
using DimOrder = llvm::SmallVector<int64_t, 6>;

DimOrder identityOrder(size_t rank);
/// `shape` as it lies in memory.
llvm::SmallVector<int64_t> inOrder(llvm::ArrayRef<int64_t> shape,
                                   llvm::ArrayRef<int64_t> order);
/// The permutation that takes a tensor from order `from` to order `to`.
llvm::SmallVector<int64_t> permutationBetween(llvm::ArrayRef<int64_t> from,
                                              llvm::ArrayRef<int64_t> to);
/// The representative of all orders with the same elements in the same places:
/// the positions of dims of size 1 do not matter. These come first, and an
/// order without effect is the identity.
DimOrder canonicalOrder(llvm::ArrayRef<int64_t> order,
                        llvm::ArrayRef<int64_t> shape);

/// How the dims of an op's operands correspond to those of its result. A dim is
/// a list of parts, major to minor; parts with the same number have the same
/// indices. A reshape of [6, 4] to [2, 12] has the operand dims {0, 1}, {2} and
/// the result dims {0}, {1, 2}.
struct DimParts {
  using Dims = llvm::SmallVector<llvm::SmallVector<int64_t, 1>>;
  Dims operand, result;
  /// True if the result, or the operand, consists of windows and so has an
  /// additional last dim.
  bool hasWindows = false;

  /// The natural order of the result (operand) if the operand (result) has
  /// `order`; nullopt if there is none, for example if it has dims that the
  /// other lacks.
  std::optional<DimOrder> toResult(llvm::ArrayRef<int64_t> order,
                                   llvm::ArrayRef<int64_t> shape) const;
  std::optional<DimOrder> toOperand(llvm::ArrayRef<int64_t> order,
                                    llvm::ArrayRef<int64_t> shape) const;
};

/// The parts of an op with one result that works with any memory order of its
/// operands' dims, the same for all operands; nullopt for other ops.
std::optional<DimParts> dimPartsOf(mlir::Operation *op);

} // namespace polyrank::lowering
