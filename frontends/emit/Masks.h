// Selection by a mask that is computed at run time; only the number of its true
// elements is known at import.

#pragma once

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// For each true element of `mask` (i1), in row-major order, the number of true
/// elements before it; -1 for false elements (int64). The prefix sums are taken
/// over blocks of 64 elements, then over the sums of blocks: 64 additions per
/// element, whatever the size.
Imported numberTrue(Emitter &emit, const Imported &mask);

/// The number of true elements of `mask`, as an int64 scalar.
Imported countTrue(Emitter &emit, const Imported &mask);

/// The `count` elements of `x` [b.., m.., a..] at which `mask` [m..], whose
/// dims start at `axis`, is true, in row-major order: [b.., count, a..]. If the
/// number of true elements is not `count`, floats are NaN.
Imported takeTrue(Emitter &emit, const Imported &x, const Imported &mask,
                  int64_t axis, int64_t count);

/// The indices, in row-major order, of the `count` true elements of `mask`: for
/// each dim an int64 [count]. If fewer are true, the last ones are 0.
llvm::SmallVector<Imported> placesTrue(Emitter &emit, const Imported &mask,
                                       int64_t count);

/// Replaces the slices of `x` [b.., m.., a..] at which `mask` [m..] at `axis`
/// is true by consecutive slices of `source` [b.., n, a..]. Floats beyond the
/// end of `source` are NaN; with `isWhole` all floats are NaN unless exactly
/// all slices are used.
Imported putTrue(Emitter &emit, const Imported &x, const Imported &mask,
                 const Imported &source, int64_t axis, bool isWhole);

/// `x` with the elements at which `mask` (i1) is true, after both are
/// broadcast, replaced by consecutive elements of `source` in row-major order.
/// Floats beyond the end of `source` are NaN.
mlir::FailureOr<Imported> scatterTrue(Emitter &emit, const Imported &x,
                                      const Imported &mask,
                                      const Imported &source);

} // namespace polyrank::frontends
