// Convolutions as one unfold per spatial dim and a product of the windows with
// the filters; transposed convolutions multiply first and fold the result.

#include "frontends/emit/Convolution.h"

using namespace mlir;

namespace polyrank::frontends {

Imported convolve(Emitter &emit, const Imported &x, const Imported &filters,
                  ArrayRef<Window> windows, int64_t groups) {
  Shape in = x.getShape(), weight = filters.getShape();
  Imported unfolded = unfold(emit, x, windows, 0);
  int64_t spatial = windows.size(), channels = weight[1];
  // [N, groups, C / groups, O.., K..] and [groups, M / groups, C / groups,
  // K..]; without the dim `groups` if there is one group.
  bool isGrouped = groups > 1;
  SmallVector<int64_t> kernel;
  for (const Window &window : windows)
    if (window.size > 1)
      kernel.push_back(window.size);
  Shape left = unfolded.getShape(), right = {weight[0] / groups, channels};
  right.append(kernel);
  if (isGrouped) {
    left[1] = channels;
    left.insert(left.begin() + 1, groups);
    right.insert(right.begin(), groups);
  }
  Imported lhs = emit.reshape(unfolded, left),
           rhs = emit.reshape(filters, right);
  // Windows as rows: [(groups), N, O.., C / groups, K..].
  int64_t first = isGrouped ? 1 : 0; // the dims before C, except N
  SmallVector<int64_t> order;
  if (isGrouped)
    order.push_back(1);
  order.push_back(0);
  for (int64_t i = 0; i < spatial; ++i)
    order.push_back(2 + first + i);
  order.push_back(1 + first);
  for (int64_t i = 0, count = kernel.size(); i < count; ++i)
    order.push_back(2 + first + spatial + i);
  lhs = emit.transpose(lhs, order);
  SmallVector<int64_t> batch, lhsContract, rhsContract;
  if (isGrouped)
    batch.push_back(0);
  for (int64_t i = 0, count = 1 + kernel.size(); i < count; ++i) {
    lhsContract.push_back(first + 1 + spatial + i);
    rhsContract.push_back(first + 1 + i);
  }
  Imported product = emit.binary<graph::MatmulOp>(
      lhs, rhs, ArrayRef<int64_t>(batch), ArrayRef<int64_t>(batch),
      ArrayRef<int64_t>(lhsContract), ArrayRef<int64_t>(rhsContract));
  // [(groups), N, O.., M / groups] to [N, M, O..].
  SmallVector<int64_t> back = {first};
  if (isGrouped)
    back.push_back(0);
  back.push_back(first + 1 + spatial);
  for (int64_t i = 0; i < spatial; ++i)
    back.push_back(first + 1 + i);
  Shape out = {in[0], weight[0]};
  for (const Window &window : windows)
    out.push_back(window.count);
  return emit.reshape(emit.transpose(product, back), out);
}

/// [.., O, .., k] to [.., s, ..]: adds up overlapping `windows` along `dim`.
/// Windows that are side by side are blocks of the dim.
static Imported fold(Emitter &emit, const Imported &x, int64_t dim,
                     const Window &window, int64_t size) {
  Shape shape = x.getShape();
  int64_t last = x.getRank() - 1;
  if (window.low == 0 && window.stride == window.size &&
      (window.dilation == 1 || window.size == 1) &&
      size == window.count * window.size) {
    SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(last));
    order.insert(order.begin() + dim + 1, last);
    shape.pop_back();
    shape[dim] = size;
    return emit.reshape(emit.transpose(x, order), shape);
  }
  return emit.unary<graph::FoldOp>(x, dim, size, window.stride, window.dilation,
                                   window.low);
}

Imported convolveTransposed(Emitter &emit, const Imported &x,
                            const Imported &filters, ArrayRef<Window> windows,
                            int64_t groups, ArrayRef<int64_t> sizes) {
  Shape in = x.getShape(), weight = filters.getShape();
  ArrayRef<int64_t> kernel = ArrayRef<int64_t>(weight).drop_front(2);
  // [N, (groups), C / groups, S..] and [(groups), C / groups, M / groups, K..]
  int64_t spatial = kernel.size(), first = groups > 1 ? 1 : 0;
  Shape left = in, right = weight;
  if (groups > 1) {
    left[1] = right[0] = in[1] / groups;
    left.insert(left.begin() + 1, groups);
    right.insert(right.begin(), groups);
  }
  SmallVector<int64_t> leftBatch, rightBatch;
  if (groups > 1) {
    leftBatch.push_back(1);
    rightBatch.push_back(0);
  }
  Imported product = emit.binary<graph::MatmulOp>(
      emit.reshape(x, left), emit.reshape(filters, right),
      ArrayRef<int64_t>(leftBatch), ArrayRef<int64_t>(rightBatch),
      ArrayRef<int64_t>(1 + first), ArrayRef<int64_t>(first));
  // [(groups), N, S.., M / groups, K..] to [N, M, S.., K..].
  SmallVector<int64_t> order = {first};
  if (groups > 1)
    order.push_back(0);
  order.push_back(first + 1 + spatial);
  for (int64_t i = 0; i < spatial; ++i)
    order.push_back(first + 1 + i);
  for (int64_t i = 0; i < spatial; ++i)
    order.push_back(first + 2 + spatial + i);
  Shape merged = in;
  merged[1] = weight[1] * groups;
  merged.append(kernel.begin(), kernel.end());
  Imported result = emit.reshape(emit.transpose(product, order), merged);
  for (int64_t i = spatial - 1; i >= 0; --i)
    result = fold(emit, result, 2 + i, windows[i], sizes[i]);
  return result;
}

} // namespace polyrank::frontends
