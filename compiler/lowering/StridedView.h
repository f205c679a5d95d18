// Tensors as strided views of others: what a library call can read in place.

#pragma once

#include <vector>

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"

namespace polyrank::lowering {

/// Part of a dim: `size` positions, `stride` elements of the base apart.
struct Digit {
  int64_t size, stride;
  bool operator==(const Digit &) const = default;
};

/// Element (i0, i1, ..) of the view is the base's element, in row-major order,
/// offset + sum over dims of their digits' strides. A dim is its digits, major
/// to minor: dim 0 of the transpose of 4x3x2 to 3x4x2, reshaped to 12x2, is
/// {3 by 2}, {4 by 6}.
struct StridedView {
  mlir::Value base;
  int64_t offset = 0;
  llvm::SmallVector<llvm::SmallVector<Digit, 2>> dims;

  /// The whole of `base`.
  static StridedView whole(mlir::Value base);
  static StridedView whole(llvm::ArrayRef<int64_t> shape);

  llvm::SmallVector<int64_t> getShape() const;
  /// Each of these fails, and leaves a view of no use, where the result is not
  /// strided.
  bool reshape(llvm::ArrayRef<int64_t> shape);
  void transpose(llvm::ArrayRef<int64_t> permutation);
  bool slice(llvm::ArrayRef<int64_t> starts, llvm::ArrayRef<int64_t> limits,
             llvm::ArrayRef<int64_t> strides);
  /// `dims` are those of the result that the view has; others have stride 0.
  void broadcast(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> dims);
};

/// The views of `value`: itself, then of what it is a reshape, transpose, slice
/// or broadcast of, and so on.
std::vector<StridedView> traceViews(mlir::Value value);

/// Cuts digit lists of equal total size (major to minor) at each other's
/// boundaries: afterwards all have the same sizes. Fails where boundaries do
/// not nest, as of 2x3 and 3x2.
bool refine(llvm::MutableArrayRef<llvm::SmallVector<Digit, 2>> lists);

} // namespace polyrank::lowering
