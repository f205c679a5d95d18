// Elements in the order of their values.

#pragma once

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// Elements of a dim that have been put in order, and where each of them was
/// (int64).
struct Ordered {
  Imported values, indices;
};

/// The first `k` of the elements of `x` along `dim` in descending order (with
/// `descending`) or ascending order. Equal ones stay in their order, and NaN is
/// above all numbers, as in PyTorch. The gradient of a value goes to the
/// element that it was.
///
/// Of a dim of n elements, the place of each in the order is the number of
/// those that stand before it: n comparisons each, summed up in one kernel,
/// whatever k. Where n is large and k is small, the elements are found one
/// after another, each in one pass over what is left.
mlir::FailureOr<Ordered> takeInOrder(Emitter &emit, const Imported &x,
                                     int64_t k, int64_t dim, bool descending);

/// For each element of `values` [.., m] the number of elements of `sorted`
/// [.., n] (or [n], for all of them) that stand before it: of those less than
/// it, or with `right` at most as large. Of NaN all n. In int64.
mlir::FailureOr<Imported> countBefore(Emitter &emit, const Imported &sorted,
                                      const Imported &values, bool right);

} // namespace polyrank::frontends
