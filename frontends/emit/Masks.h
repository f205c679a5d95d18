// Elements where a mask is true, of which only the number is known.

#pragma once

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// For each element of `mask` (i1) how many before it, row by row, are true;
/// -1 where it is itself false (int64). The sums are formed over 64 elements,
/// then over what these gave: 64 additions for each element, whatever the size.
Imported numberTrue(Emitter &emit, const Imported &mask);

/// How many elements of `mask` are true: a scalar, int64.
Imported countTrue(Emitter &emit, const Imported &mask);

/// The `count` elements of `x` [b.., m.., a..] where `mask` [m..], whose dims
/// begin at `axis`, is true, row by row: [b.., count, a..]. Where another
/// number is true the floats are NaN.
Imported takeTrue(Emitter &emit, const Imported &x, const Imported &mask,
                  int64_t axis, int64_t count);

/// The places, row by row, of the `count` elements of `mask` that are true: for
/// each dim the index along it, int64 [count]. Where fewer are true the last
/// ones are 0.
llvm::SmallVector<Imported> placesTrue(Emitter &emit, const Imported &mask,
                                       int64_t count);

/// `x` [b.., m.., a..], where `mask` [m..] at `axis` is true one of the slices
/// of `source` [b.., n, a..] after the other. Floats for which there is none
/// are NaN; with `isWhole` all of them, unless all slices are taken.
Imported putTrue(Emitter &emit, const Imported &x, const Imported &mask,
                 const Imported &source, int64_t axis, bool isWhole);

/// `x`, in which the elements where `mask` (i1) is true, after both have been
/// broadcast, are those of `source`, row by row, one after the other. Floats
/// for which the source has none are NaN.
mlir::FailureOr<Imported> scatterTrue(Emitter &emit, const Imported &x,
                                      const Imported &mask,
                                      const Imported &source);

} // namespace polyrank::frontends
