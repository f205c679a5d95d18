// Blocks of a tensor along one dim.

#include "dialects/graph/Blocks.h"

#include "dialects/graph/Graph.h"

using namespace mlir;
using namespace polyrank;
using graph::Tensor;
using sharding::ReductionKind;

Tensor graph::blockOf(const Tensor &value, int64_t dim, int64_t count,
                      int64_t index) {
  SmallVector<int64_t> start(value.shape.size(), 0), size = value.shape;
  size[dim] /= count;
  start[dim] = index * size[dim];
  return value.slice(start, size);
}

Tensor graph::join(ArrayRef<Tensor> parts, int64_t dim) {
  SmallVector<int64_t> shape = parts.front().shape;
  shape[dim] *= parts.size();
  Tensor result(parts.front().elementType, shape);
  SmallVector<int64_t> start(shape.size(), 0);
  for (const Tensor &part : parts) {
    result.insert(part, start);
    start[dim] += part.shape[dim];
  }
  return result;
}

Tensor graph::reduce(ArrayRef<Tensor> parts, ReductionKind kind) {
  Tensor result = parts.front();
  for (const Tensor &part : parts.drop_front())
    for (int64_t i = 0, n = result.size(); i < n; ++i) {
      double a = result.at(i), b = part.at(i);
      result.set(i, kind == ReductionKind::Sum   ? a + b
                    : kind == ReductionKind::Max ? graph::maximum(a, b)
                                                 : graph::minimum(a, b));
    }
  return result;
}

/// Calls `body(block, offset in it, offset in the widened block of me)` for the
/// overlap of the widened block with each block, in the order of blocks.
static void forEachOverlap(ArrayRef<int64_t> shape, int64_t numBlocks,
                           int64_t me, int64_t dim, int64_t low, int64_t high,
                           function_ref<void(int64_t, int64_t, int64_t)> body) {
  SmallVector<int64_t> wide(shape);
  wide[dim] += low + high;
  SmallVector<int64_t> strides = graph::getStrides(wide);
  int64_t size = shape[dim];
  for (int64_t block = 0; block < numBlocks; ++block) {
    int64_t offset = 0;
    graph::forEachIndex(shape, [&](ArrayRef<int64_t> index) {
      int64_t position = (block - me) * size + index[dim] + low, at = 0;
      for (auto [d, i] : llvm::enumerate(index))
        at += (static_cast<int64_t>(d) == dim ? position : i) * strides[d];
      if (position >= 0 && position < wide[dim])
        body(block, offset, at);
      ++offset;
    });
  }
}

Tensor graph::widen(ArrayRef<Tensor> blocks, int64_t me, int64_t dim,
                    int64_t low, int64_t high) {
  SmallVector<int64_t> shape = blocks[me].shape, wide = shape;
  wide[dim] += low + high;
  Tensor result(blocks[me].elementType, wide);
  for (int64_t i = 0, n = result.size(); i < n; ++i)
    result.setUndefined(i);
  forEachOverlap(shape, blocks.size(), me, dim, low, high,
                 [&](int64_t block, int64_t from, int64_t to) {
                   result.copy(to, blocks[block], from);
                 });
  return result;
}

Tensor graph::addOverlaps(ArrayRef<Tensor> blocks, int64_t me, int64_t dim,
                          int64_t low, int64_t high) {
  SmallVector<int64_t> shape = blocks[me].shape;
  shape[dim] -= low + high;
  Tensor result(blocks[me].elementType, shape);
  for (int64_t block = 0, n = blocks.size(); block < n; ++block)
    forEachOverlap(shape, n, block, dim, low, high,
                   [&](int64_t owner, int64_t to, int64_t from) {
                     if (owner == me)
                       result.set(to, result.at(to) + blocks[block].at(from));
                   });
  return result;
}
