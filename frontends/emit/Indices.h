// Indices into dims, and operations on the positions of elements.

#pragma once

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// Wraps negative indices, which count from the end of a dim of `size`;
/// `graph.gather` has no such rule. Indices into a parameter stay as they are:
/// it is the table of an embedding, and PyTorch's embedding accepts no negative
/// indices, so no op is needed between the indices and the lookup.
///
/// Known indices are wrapped in place: masks of long sequences have millions.
Imported wrapIndices(Emitter &emit, const Imported &indices, int64_t size);

/// If `indices` are known and are `start, start + 1, ..`, returns `start`: they
/// then are a slice, whose gradient is a pad.
std::optional<int64_t> startOfRun(const Imported &indices);

/// The sum of indices[i] * strides[i] over a list of index tensors of the same
/// shape.
Imported linearIndex(Emitter &emit, llvm::ArrayRef<Imported> indices,
                     llvm::ArrayRef<int64_t> strides);

/// The linear indices of the slices that `indices` [.., depth] pick in `dims`,
/// as if these were merged into one dim: [..].
Imported placesOf(Emitter &emit, const Imported &indices,
                  llvm::ArrayRef<int64_t> dims);

/// The linear indices of the elements x[.., indices[i, j, ..], ..], with the
/// index at dim `axis`, in a tensor of `shape` flattened to one dim.
Imported placesAlong(Emitter &emit, const Imported &indices, int64_t axis,
                     llvm::ArrayRef<int64_t> shape);

/// result[i, j, ..] = x[.., indices[i, j, ..], ..] with the index at dim
/// `axis`; in the other dims, `indices` may be smaller than x. The other dims
/// are not flattened, so that they can be split over devices.
mlir::FailureOr<Imported> gatherAlong(Emitter &emit, const Imported &x,
                                      const Imported &indices, int64_t axis);

/// The permutation that moves dim `axis` of `rank` to the end, and its inverse.
llvm::SmallVector<int64_t> axisLast(int64_t axis, int64_t rank);
llvm::SmallVector<int64_t> axisBack(int64_t axis, int64_t rank);

/// Zeroes the last two dims except where column - row <= k or, with `isUpper`,
/// >= k.
mlir::FailureOr<Imported> triangleOf(Emitter &emit, const Imported &x,
                                     int64_t k, bool isUpper);

/// result[j] = sum of x[i] over i <= j (`reverse`: i >= j; `exclusive`: without
/// i = j): a reduction of x repeated along j, with the other elements zeroed.
/// It takes quadratic time: cheap for the positions of tokens, not meant for
/// long rows.
mlir::FailureOr<Imported> cumulativeSum(Emitter &emit, const Imported &x,
                                        int64_t axis, bool exclusive = false,
                                        bool reverse = false);

/// result[j] = x[0] o x[1] o .. o x[j] along `axis`, for an associative
/// `combine` of two tensors of the same shape (first the earlier one). It takes
/// log2(n) rounds; in each, a result is combined with the one 1, 2, 4, ..
/// positions before it (Hillis and Steele, 1986).
Imported prefixScan(
    Emitter &emit, Imported x, int64_t axis,
    llvm::function_ref<Imported(const Imported &, const Imported &)> combine);

/// The index (int64) of the largest or smallest element along dim `axis`, which
/// the result does not have; of equal ones the first, or the `last`.
Imported argExtremum(Emitter &emit, const Imported &x, int64_t axis,
                     bool largest, bool last = false);

} // namespace polyrank::frontends
