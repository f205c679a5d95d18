// Indices into dims, as ONNX counts them.

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

} // namespace polyrank::frontends
