// A logical parameter, described by the dims of its stored tensor.

#pragma once

#include "compiler/training/UpdateRule.h"

namespace polyrank::training {

/// How the dims of a view are parts of the stored tensor's dims.
///
/// A fused projection of [out, in] whose queries are viewed as [heads, width,
/// in] has two parts of dim 0, of strides `width` and 1, and one of dim 1. The
/// keys follow the queries: they have an offset in dim 0.
class StoredView {
public:
  /// Emits an error if a dim of the view is not part of one stored dim.
  static mlir::FailureOr<StoredView> get(const UpdatedTensor &tensor);

  /// Reshapes a tensor of the view's shape so that each dim is a part of one
  /// stored dim; `restore` is the inverse.
  mlir::Value refine(graph::Parts &parts, mlir::Value value) const;
  mlir::Value restore(graph::Parts &parts, mlir::Value value) const;

  /// The shape of a refined value.
  llvm::ArrayRef<int64_t> getShape() const { return shape; }
  /// The refined dims that are parts of these stored dims.
  llvm::SmallVector<int64_t> getDims(llvm::ArrayRef<int64_t> storedDims) const;

  /// Given a value whose dims are the refined dims of `storedDims`, returns one
  /// with the stored sizes of these, with zeros at elements of other views.
  mlir::Value place(graph::Parts &parts, mlir::Value value,
                    llvm::ArrayRef<int64_t> storedDims) const;
  /// The inverse: this view's elements of a value with the stored sizes.
  mlir::Value take(graph::Parts &parts, mlir::Value value,
                   llvm::ArrayRef<int64_t> storedDims) const;

private:
  /// `size` elements of a stored dim, `stride` apart.
  struct Piece {
    int64_t storedDim, size, stride;
  };
  /// The pieces of one stored dim, major to minor, adjacent pieces merged; at
  /// least one.
  llvm::SmallVector<Piece> getMerged(int64_t storedDim) const;
  /// For a value that has just the refined dims of `storedDims`: its dims in
  /// the order of the stored tensor.
  llvm::SmallVector<int64_t> getOrder(llvm::ArrayRef<int64_t> storedDims) const;

  llvm::SmallVector<int64_t> stored, offsets, viewShape;
  llvm::SmallVector<Piece> pieces; // of the refined dims
  llvm::SmallVector<int64_t> shape;
};

} // namespace polyrank::training
