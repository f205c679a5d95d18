// Writes slices and elements into a tensor by index.

#pragma once

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// How an update is combined with the element at its index. Products and
/// extrema are over the element and all its updates; those equal to the
/// extremum share the gradient.
enum class Scatter { Replace, Add, Mul, Max, Min };

/// `x` with `updates` [n, ..] written to its slices along dim 0 at the indices
/// `places` [n]. If several updates replace the same slice, the last one wins
/// when `places` are known; otherwise their sum would be taken, so indices must
/// differ.
mlir::FailureOr<Imported> scatterSlices(Emitter &emit, const Imported &x,
                                        const Imported &places,
                                        const Imported &updates,
                                        Scatter reduction);

/// `x` with updates[i, j, ..] written to x[.., indices[i, j, ..], ..], with the
/// index at dim `axis`. If x has the sizes of the indices in the other dims,
/// these are not flattened, so that they can be split over devices.
mlir::FailureOr<Imported> scatterAlong(Emitter &emit, const Imported &x,
                                       const Imported &indices,
                                       const Imported &updates, int64_t axis,
                                       Scatter reduction);

} // namespace polyrank::frontends
