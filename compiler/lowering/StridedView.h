// Describes tensors as strided views of others, which library calls can read in
// place.

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

/// Element (i0, i1, ..) of the view is element offset + sum over dims of
/// (digits of the index times their strides) of the base in row-major order. A
/// dim is a list of digits, major to minor: the transpose of 4x3x2 to 3x4x2,
/// reshaped to 12x2, has dim 0 = {3 by 2}, {4 by 6}.
struct StridedView {
  mlir::Value base;
  int64_t offset = 0;
  llvm::SmallVector<llvm::SmallVector<Digit, 2>> dims;

  /// The whole of `base`.
  static StridedView whole(mlir::Value base);
  static StridedView whole(llvm::ArrayRef<int64_t> shape);

  llvm::SmallVector<int64_t> getShape() const;
  /// These fail, and leave the view unusable, if the result is not strided.
  bool reshape(llvm::ArrayRef<int64_t> shape);
  void transpose(llvm::ArrayRef<int64_t> permutation);
  bool slice(llvm::ArrayRef<int64_t> starts, llvm::ArrayRef<int64_t> limits,
             llvm::ArrayRef<int64_t> strides);
  /// `dims` are the dims of the result that the view has; the others get stride
  /// 0.
  void broadcast(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> dims);
};

/// The views of `value`: first of itself, then of the value that it is a
/// reshape, transpose, slice or broadcast of, and so on.
std::vector<StridedView> traceViews(mlir::Value value);

/// A form of a result, looking through reshapes and transposes that are its
/// only use: `view` has the result's dims, over `value`.
struct ResultForm {
  mlir::Value value;
  StridedView view;
};

/// The forms of `result`: the result itself, and each further reshape or
/// transpose that is the only use and in its block.
std::vector<ResultForm> traceResults(mlir::Value result);

/// Splits digit lists of equal total size (major to minor) at each other's
/// boundaries: afterwards all have the same sizes. Fails if the boundaries do
/// not nest, as those of 2x3 and 3x2.
bool refine(llvm::MutableArrayRef<llvm::SmallVector<Digit, 2>> lists);

} // namespace polyrank::lowering
