// Sorting, top-k and searches in sorted dims.

#pragma once

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// Sorted elements of a dim, and the index from which each of them comes
/// (int64).
struct Ordered {
  Imported values, indices;
};

/// The first `k` of the elements of `x` along `dim` in ascending or, with
/// `descending`, descending order. The order is stable, and NaN is larger than
/// all numbers, as in PyTorch. The gradient of a result goes to the element
/// that it was taken from.
///
/// In a dim of n elements, the rank of each is the number of elements that come
/// before it: n comparisons each, summed in one kernel, whatever k. If n is
/// large and k is small, the elements are found one after another, each in one
/// pass over the rest.
mlir::FailureOr<Ordered> takeInOrder(Emitter &emit, const Imported &x,
                                     int64_t k, int64_t dim, bool descending);

/// For each element of `values` [.., m], the number of elements of `sorted`
/// [.., n] (or [n], shared by all) that are less than it or, with `right`, at
/// most equal to it; n for NaN. The result is int64. See torch.searchsorted.
mlir::FailureOr<Imported> countBefore(Emitter &emit, const Imported &sorted,
                                      const Imported &values, bool right);

} // namespace polyrank::frontends
