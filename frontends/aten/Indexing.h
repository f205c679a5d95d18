// Indexing by several tensors at once, x[i, :, j], for reading and for writing.

#pragma once

#include "frontends/aten/Call.h"

namespace polyrank::frontends::aten {

/// The elements that a list of indices selects.
struct Places {
  /// The dims that are indexed, ascending.
  llvm::SmallVector<int64_t> dims;
  /// `order` is the permutation that brings these dims together; `merged` is
  /// the shape in which they are merged into one, dim `at`.
  llvm::SmallVector<int64_t> order;
  Shape merged;
  int64_t at = 0;
  /// Index into the merged dim, in the broadcast shape of all indices.
  Imported index;
  /// True if `index` is the given index of the only indexed dim, so that
  /// nothing needs to be merged.
  bool mayPick = false;
};

/// Resolves indices into a tensor of `shape`; null takes a whole dim. A mask
/// stands for the indices of its true elements, and must be known.
mlir::FailureOr<Places> findPlaces(Call &c, const Shape &shape,
                                   llvm::ArrayRef<TensorRef> indices);

/// The number of true elements of `mask`, which is the size of dim `dim` of the
/// call's first result: computed if the mask is known, else as the file or the
/// user gives it.
mlir::FailureOr<int64_t> countOf(Call &c, const Imported &mask, int64_t dim);

/// The case in which `indices` are a single mask that is not known; `axis` is
/// the number of dims before it.
struct ComputedMask {
  Imported mask; // i1
  int64_t axis;
};
std::optional<ComputedMask> findComputedMask(Call &c,
                                             llvm::ArrayRef<TensorRef> indices);

/// The indices of the nonzero elements in row-major order, as [dims, count].
graph::Tensor nonzeroPlaces(Emitter &emit, const graph::Tensor &x);

} // namespace polyrank::frontends::aten
