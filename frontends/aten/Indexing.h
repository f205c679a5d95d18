// Indexing by several tensors at once, x[i, :, j], for reading and for writing.

#pragma once

#include "frontends/aten/Call.h"

namespace polyrank::frontends::aten {

/// Where the elements lie that a list of indices names.
struct Places {
  /// The dims that have an index, in order.
  llvm::SmallVector<int64_t> dims;
  /// x with these dims beside each other, and then merged into one, which is
  /// dim `at`.
  llvm::SmallVector<int64_t> order;
  Shape merged;
  int64_t at = 0;
  /// Into the merged dim, of the shape that all indices have together.
  Imported index;
  /// Whether `index` is that of the one dim as it was given, so that nothing
  /// needs to be merged.
  bool mayPick = false;
};

/// Of indices into a tensor of `shape`, null where a dim is taken whole. A mask
/// stands for the places where it is true, and must be known.
mlir::FailureOr<Places> findPlaces(Call &c, const Shape &shape,
                                   llvm::ArrayRef<TensorRef> indices);

/// How many elements of `mask` are true, which are as many of the first result
/// along its dim `dim`: as they are known, or as the file or the user says.
mlir::FailureOr<int64_t> countOf(Call &c, const Imported &mask, int64_t dim);

/// `indices` that are one mask which is not known, and the dims in front of it.
struct ComputedMask {
  Imported mask; // i1
  int64_t axis;
};
std::optional<ComputedMask> findComputedMask(Call &c,
                                             llvm::ArrayRef<TensorRef> indices);

/// The places of the elements that are not 0, row-major, as [dims, count].
graph::Tensor nonzeroPlaces(Emitter &emit, const graph::Tensor &x);

} // namespace polyrank::frontends::aten
