// Slices and elements that are put into a tensor by index.

#pragma once

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// What becomes of an element that an update goes to. Products and extrema are
/// of the element and of all updates for it; those that are equal to an
/// extremum share the gradient.
enum class Scatter { Replace, Add, Mul, Max, Min };

/// The slices of `x` along its first dim that `places` [n] name, with `updates`
/// [n, ..]. Where an index is named twice and replaces, known indices take the
/// last; of others the sum of the updates would be taken, so they must differ.
mlir::FailureOr<Imported> scatterSlices(Emitter &emit, const Imported &x,
                                        const Imported &places,
                                        const Imported &updates,
                                        Scatter reduction);

/// x[.., indices[i, j, ..], ..] with updates[i, j, ..], the index at `axis`.
/// Where x has the sizes of the indices in the other dims, these stay dims, so
/// that they can be split over devices.
mlir::FailureOr<Imported> scatterAlong(Emitter &emit, const Imported &x,
                                       const Imported &indices,
                                       const Imported &updates, int64_t axis,
                                       Scatter reduction);

} // namespace polyrank::frontends
