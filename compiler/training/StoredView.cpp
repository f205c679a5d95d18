// A logical parameter, described by the dims of its stored tensor.

#include "compiler/training/StoredView.h"

#include "dialects/graph/ParameterSymbols.h"
#include "llvm/Support/InterleavedRange.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::Parts;

static Value reshape(Parts &parts, Value value, ArrayRef<int64_t> shape) {
  return graph::getShape(value) == shape
             ? value
             : graph::ReshapeOp::create(parts.builder, parts.location, value,
                                        shape);
}

/// Adds zeros before and after the elements of dim `dim`.
static Value pad(Parts &parts, Value value, int64_t dim, int64_t low,
                 int64_t high) {
  if (low == 0 && high == 0)
    return value;
  SmallVector<int64_t> zeros(graph::getShape(value).size(), 0);
  SmallVector<int64_t> lows = zeros, highs = zeros;
  lows[dim] = low;
  highs[dim] = high;
  return graph::PadOp::create(parts.builder, parts.location, value, lows, highs,
                              zeros, 0.0);
}

static Value slice(Parts &parts, Value value, int64_t dim, int64_t start,
                   int64_t limit) {
  if (start == 0 && limit == graph::getShape(value)[dim])
    return value;
  return graph::SliceOp::create(parts.builder, parts.location, value, dim,
                                start, limit);
}

/// The shape with dims [dim, dim + count) replaced by `sizes`.
static SmallVector<int64_t> splice(Value value, int64_t dim, int64_t count,
                                   ArrayRef<int64_t> sizes) {
  ArrayRef<int64_t> shape = graph::getShape(value);
  SmallVector<int64_t> result(shape.take_front(dim));
  llvm::append_range(result, sizes);
  llvm::append_range(result, shape.drop_front(dim + count));
  return result;
}

FailureOr<StoredView> StoredView::get(const UpdatedTensor &tensor) {
  StoredView result;
  graph::ParameterOp op = tensor.stored;
  result.stored.assign(cast<RankedTensorType>(op.getType()).getShape().begin(),
                       cast<RankedTensorType>(op.getType()).getShape().end());
  result.viewShape.assign(graph::getShape(tensor.parameter).begin(),
                          graph::getShape(tensor.parameter).end());
  SmallVector<int64_t> storedStrides = graph::getStrides(result.stored);
  int64_t base = tensor.view ? tensor.view[0] : 0;
  SmallVector<int64_t> strides = graph::getStrides(result.viewShape);
  if (tensor.view)
    strides.assign(tensor.view.asArrayRef().begin() + 1,
                   tensor.view.asArrayRef().end());
  for (auto [size, stride] : llvm::zip_equal(result.stored, storedStrides))
    result.offsets.push_back(base / stride % size);

  SmallVector<int64_t> ends(result.offsets);
  bool isInside = true;
  for (auto [size, stride] : llvm::zip_equal(result.viewShape, strides)) {
    // Several pieces, major to minor, if the dim continues in further stored
    // dims.
    SmallVector<Piece> found;
    int64_t rest = size;
    for (int64_t d = result.stored.size(); d-- > 0 && rest > 1;) {
      int64_t inner = storedStrides[d], extent = inner * result.stored[d];
      // If the dim fills this stored dim, the rest continues with the next one.
      int64_t from = found.empty() ? stride : inner;
      if (from >= extent)
        continue;
      int64_t step = from / inner;
      int64_t count = std::min(rest, result.stored[d] / step);
      if (from % inner != 0 || rest % count != 0 ||
          (count < rest && count * step != result.stored[d]))
        break;
      found.insert(found.begin(), {d, count, step});
      rest /= count;
    }
    isInside &= rest <= 1;
    for (const Piece &piece : found)
      ends[piece.storedDim] += (piece.size - 1) * piece.stride;
    llvm::append_range(result.pieces, found);
  }
  for (auto [end, size] : llvm::zip_equal(ends, result.stored))
    isInside &= end < size;
  if (!isInside)
    return op.emitError("'")
               << graph::nameOf(op.getSymName()) << "' ["
               << llvm::interleaved(result.stored)
               << "] is cut into parts by the model across its dims, so its "
                  "rows "
                  "and columns are not known; choose an optimizer that does "
                  "not need them (--optimizer), or freeze it",
           failure();
  for (const Piece &piece : result.pieces)
    result.shape.push_back(piece.size);
  return result;
}

Value StoredView::refine(Parts &parts, Value value) const {
  return reshape(parts, value, shape);
}

Value StoredView::restore(Parts &parts, Value value) const {
  return reshape(parts, value, viewShape);
}

SmallVector<int64_t> StoredView::getDims(ArrayRef<int64_t> storedDims) const {
  SmallVector<int64_t> dims;
  for (auto [dim, piece] : llvm::enumerate(pieces))
    if (llvm::is_contained(storedDims, piece.storedDim))
      dims.push_back(dim);
  return dims;
}

SmallVector<int64_t> StoredView::getOrder(ArrayRef<int64_t> storedDims) const {
  SmallVector<int64_t> dims = getDims(storedDims);
  auto order = llvm::to_vector(llvm::seq<int64_t>(0, dims.size()));
  llvm::stable_sort(order, [&](int64_t a, int64_t b) {
    const Piece &x = pieces[dims[a]], &y = pieces[dims[b]];
    return std::pair(x.storedDim, -x.stride) <
           std::pair(y.storedDim, -y.stride);
  });
  return order;
}

SmallVector<StoredView::Piece> StoredView::getMerged(int64_t storedDim) const {
  SmallVector<Piece> merged;
  SmallVector<int64_t> dims = getDims(storedDim);
  for (int64_t i : getOrder(storedDim)) {
    const Piece &piece = pieces[dims[i]];
    if (!merged.empty() && merged.back().stride == piece.size * piece.stride)
      merged.back() = {storedDim, merged.back().size * piece.size,
                       piece.stride};
    else
      merged.push_back(piece);
  }
  if (merged.empty())
    merged.push_back({storedDim, 1, 1});
  return merged;
}

Value StoredView::place(Parts &parts, Value value,
                        ArrayRef<int64_t> storedDims) const {
  SmallVector<int64_t> order = getOrder(storedDims), sizes;
  if (!llvm::is_sorted(order))
    value = parts.transpose(value, order);
  for (int64_t d : storedDims)
    for (const Piece &piece : getMerged(d))
      sizes.push_back(piece.size);
  value = reshape(parts, value, sizes);
  for (auto [at, d] : llvm::enumerate(storedDims)) {
    SmallVector<Piece> merged = getMerged(d);
    int64_t extent = merged.back().size; // of the pieces merged so far
    if (merged.size() > 1 || merged.back().stride > 1) {
      // Adds the gaps between the elements of each piece, minor pieces first.
      extent = 1;
      int64_t behind = at + merged.size();
      value = reshape(parts, value, splice(value, behind, 0, 1));
      for (const Piece &piece : llvm::reverse(merged)) {
        value = pad(parts, value, behind, 0, piece.stride - extent);
        extent = piece.size * piece.stride;
        value = reshape(parts, value, splice(value, --behind, 2, extent));
      }
    }
    int64_t end = std::min(stored[d], offsets[d] + extent);
    value = slice(parts, value, at, 0, end - offsets[d]);
    value = pad(parts, value, at, offsets[d], stored[d] - end);
  }
  return value;
}

Value StoredView::take(Parts &parts, Value value,
                       ArrayRef<int64_t> storedDims) const {
  // From the last dim on, so that the positions of earlier dims stay valid.
  for (int64_t at = storedDims.size(); at-- > 0;) {
    int64_t d = storedDims[at];
    SmallVector<Piece> merged = getMerged(d);
    bool isApart = merged.size() > 1 || merged.back().stride > 1;
    int64_t extent =
        merged.front().size * (isApart ? merged.front().stride : 1);
    int64_t end = std::min(stored[d], offsets[d] + extent);
    value = slice(parts, value, at, offsets[d], end);
    value = pad(parts, value, at, 0, offsets[d] + extent - end);
    if (!isApart)
      continue;
    int64_t dim = at;
    for (auto [i, piece] : llvm::enumerate(merged)) {
      value = reshape(parts, value,
                      splice(value, dim, 1, {piece.size, piece.stride}));
      int64_t next =
          i + 1 < merged.size() ? merged[i + 1].size * merged[i + 1].stride : 1;
      value = slice(parts, value, ++dim, 0, next);
    }
    value = reshape(parts, value, splice(value, dim, 1, {}));
  }
  SmallVector<int64_t> order = getOrder(storedDims), dims = getDims(storedDims);
  SmallVector<int64_t> sizes, back(order.size());
  for (auto [i, dim] : llvm::enumerate(order)) {
    sizes.push_back(pieces[dims[dim]].size);
    back[dim] = i;
  }
  value = reshape(parts, value, sizes);
  return llvm::is_sorted(back) ? value : parts.transpose(value, back);
}
