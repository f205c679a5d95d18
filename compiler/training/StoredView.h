// A logical parameter, seen in the dims of its stored tensor.

#pragma once

#include "compiler/training/UpdateRule.h"

namespace polyrank::training {

/// How the dims of a view are parts of the stored tensor's.
///
/// A fused projection of [out, in] whose queries are seen as [heads, width, in]
/// has two parts of dim 0, of strides `width` and 1, and one of dim 1. Its keys
/// begin behind them: they have an offset in dim 0.
class StoredView {
public:
  /// Fails, with an error, where a dim of the view is no part of one stored
  /// dim.
  static mlir::FailureOr<StoredView> get(const UpdatedTensor &tensor);

  /// A tensor of the view's shape in one each of whose dims is a part of one
  /// stored dim; and back.
  mlir::Value refine(graph::Parts &parts, mlir::Value value) const;
  mlir::Value restore(graph::Parts &parts, mlir::Value value) const;

  /// Of a refined value.
  llvm::ArrayRef<int64_t> getShape() const { return shape; }
  /// Its dims that are parts of one of these stored dims.
  llvm::SmallVector<int64_t> getDims(llvm::ArrayRef<int64_t> storedDims) const;

  /// Given a value with just the dims that are parts of `storedDims`, one of
  /// the stored sizes of these, with zeros at what is another view's.
  mlir::Value place(graph::Parts &parts, mlir::Value value,
                    llvm::ArrayRef<int64_t> storedDims) const;
  /// The opposite: this view's elements of a value of the stored sizes.
  mlir::Value take(graph::Parts &parts, mlir::Value value,
                   llvm::ArrayRef<int64_t> storedDims) const;

private:
  /// Every `stride`th of `size` elements of a stored dim.
  struct Piece {
    int64_t storedDim, size, stride;
  };
  /// Those of one stored dim, major to minor, as few as say the same; at least
  /// one.
  llvm::SmallVector<Piece> getMerged(int64_t storedDim) const;
  /// The refined dims among those of `storedDims` in the order of the stored
  /// tensor, as numbers of the dims of a value that has just these.
  llvm::SmallVector<int64_t> getOrder(llvm::ArrayRef<int64_t> storedDims) const;

  llvm::SmallVector<int64_t> stored, offsets, viewShape;
  llvm::SmallVector<Piece> pieces; // of the refined dims
  llvm::SmallVector<int64_t> shape;
};

} // namespace polyrank::training
