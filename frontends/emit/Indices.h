// Indices into dims, and what is computed by the places of elements.

#pragma once

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// Negative indices count from the end of a dim of `size`; `graph.gather` has
/// no such rule. The table of an embedding is a parameter, and what looks it
/// up (PyTorch's embedding) has no negative indices either, so there the
/// indices stay as they are and nothing stands between them and the table.
///
/// Known indices are wrapped in place: masks of long sequences have millions.
Imported wrapIndices(Emitter &emit, const Imported &indices, int64_t size);

/// The first of known indices `start, start + 1, ..`: these are a slice, whose
/// gradient is a pad.
std::optional<int64_t> startOfRun(const Imported &indices);

/// sum of indices[i] * strides[i] over a list of index tensors of one shape.
Imported linearIndex(Emitter &emit, llvm::ArrayRef<Imported> indices,
                     llvm::ArrayRef<int64_t> strides);

/// The places of the slices that `indices` [.., depth] pick in `dims`, counted
/// as if these were one dim: [..].
Imported placesOf(Emitter &emit, const Imported &indices,
                  llvm::ArrayRef<int64_t> dims);

/// The places of the elements x[.., indices[i, j, ..], ..] in a tensor of
/// `shape`, as if that were one dim, with the index at `axis`.
Imported placesAlong(Emitter &emit, const Imported &indices, int64_t axis,
                     llvm::ArrayRef<int64_t> shape);

/// result[i, j, ..] = x[.., indices[i, j, ..], ..] with the index at `axis`; in
/// the other dims the indices may be fewer than the elements of x. The other
/// dims stay dims, so that they can be split over devices.
mlir::FailureOr<Imported> gatherAlong(Emitter &emit, const Imported &x,
                                      const Imported &indices, int64_t axis);

/// The permutation that brings dim `axis` of `rank` to the end, and the one
/// that brings it back.
llvm::SmallVector<int64_t> axisLast(int64_t axis, int64_t rank);
llvm::SmallVector<int64_t> axisBack(int64_t axis, int64_t rank);

/// Zeros but where column - row <= k, or with `isUpper` >= k, in the last two
/// dims.
mlir::FailureOr<Imported> triangleOf(Emitter &emit, const Imported &x,
                                     int64_t k, bool isUpper);

/// result[j] = sum of x[i] over i <= j (`reverse`: i >= j; `exclusive`: without
/// i = j): a reduction of x repeated along j, where the others are zero. Each
/// element sums over the whole dim, so positions of tokens cost little, and
/// long rows are not what it is for.
mlir::FailureOr<Imported> cumulativeSum(Emitter &emit, const Imported &x,
                                        int64_t axis, bool exclusive = false,
                                        bool reverse = false);

/// result[j] = x[0] o x[1] o .. o x[j] along `axis`, for an associative
/// `combine` of two tensors of one shape (what comes before, what comes after):
/// log2(n) rounds, in each of which a result takes in the one 1, 2, 4, ..
/// places before it (Hillis and Steele, 1986).
Imported prefixScan(
    Emitter &emit, Imported x, int64_t axis,
    llvm::function_ref<Imported(const Imported &, const Imported &)> combine);

/// The index (int64) of the largest or smallest element along a dim, which the
/// result lacks: of the first one, or the `last`.
Imported argExtremum(Emitter &emit, const Imported &x, int64_t axis,
                     bool largest, bool last = false);

} // namespace polyrank::frontends
