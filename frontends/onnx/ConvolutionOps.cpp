// Import of convolutions: one unfold per spatial dim, and a product of the
// windows with the filters.

#include "frontends/onnx/Windows.h"

using namespace mlir;

namespace polyrank::frontends::onnx {
namespace {

/// x [N, C, S..] and filters [M, C / groups, K..] give [N, M, O..]: a product
/// that contracts channels and window elements, with groups as batch dims.
LogicalResult conv(NodeImporter &n) {
  if (failed(n.need(2)))
    return failure();
  const Imported &x = n.operand(0), &filters = n.operand(1);
  Shape in = x.getShape(), weight = filters.getShape();
  int64_t groups = n.getInt("group", 1);
  if (in.size() < 3 || weight.size() != in.size() || groups < 1 ||
      in[1] != weight[1] * groups || weight[0] % groups != 0)
    return n.fail("Conv of " + toString(in) + " with filters " +
                  toString(weight) + " in " + Twine(groups) + " groups");
  auto sizes = perDim(n, "kernel_shape", in.size() - 2, 0);
  if (failed(sizes))
    return failure();
  if (!n.attribute("kernel_shape"))
    sizes->assign(weight.begin() + 2, weight.end());
  if (!llvm::equal(*sizes, ArrayRef<int64_t>(weight).drop_front(2)))
    return n.fail("its kernel_shape " + toString(*sizes) +
                  " is not that of its filters " + toString(weight));
  auto windows = findWindows(n, in, *sizes);
  if (failed(windows))
    return failure();

  Imported unfolded = unfold(n, x, *windows, 0);
  int64_t spatial = windows->size(), channels = weight[1];
  // [N, groups, C / groups, O.., K..] and [groups, M / groups, C / groups, K..]
  // without groups where there is one.
  bool isGrouped = groups > 1;
  SmallVector<int64_t> kernel;
  for (const Window &window : *windows)
    if (window.size > 1)
      kernel.push_back(window.size);
  Shape left = unfolded.getShape(), right = {weight[0] / groups, channels};
  right.append(kernel);
  if (isGrouped) {
    left[1] = channels;
    left.insert(left.begin() + 1, groups);
    right.insert(right.begin(), groups);
  }
  Imported lhs = n.emit.reshape(unfolded, left),
           rhs = n.emit.reshape(filters, right);
  // Windows as rows: [(groups), N, O.., C / groups, K..].
  int64_t first = isGrouped ? 1 : 0; // dims before C, beside N
  SmallVector<int64_t> order;
  if (isGrouped)
    order.push_back(1);
  order.push_back(0);
  for (int64_t i = 0; i < spatial; ++i)
    order.push_back(2 + first + i);
  order.push_back(1 + first);
  for (int64_t i = 0, count = kernel.size(); i < count; ++i)
    order.push_back(2 + first + spatial + i);
  lhs = n.emit.transpose(lhs, order);
  SmallVector<int64_t> batch, lhsContract, rhsContract;
  if (isGrouped)
    batch.push_back(0);
  for (int64_t i = 0, count = 1 + kernel.size(); i < count; ++i) {
    lhsContract.push_back(first + 1 + spatial + i);
    rhsContract.push_back(first + 1 + i);
  }
  Imported product = n.emit.binary<graph::MatmulOp>(
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
  for (const Window &window : *windows)
    out.push_back(window.count);
  Imported result = n.emit.reshape(n.emit.transpose(product, back), out);
  if (n.has(2)) {
    Shape channel(out.size(), 1);
    channel[1] = weight[0];
    if (n.operand(2).getShape() != Shape{weight[0]})
      return n.fail("its bias " + toString(n.operand(2).getShape()) +
                    " does not fit " + Twine(weight[0]) + " filters");
    result = n.emit.binaryOver<graph::AddOp>(
        result, n.emit.reshape(n.operand(2), channel));
  }
  n.result(0, result);
  return success();
}

const OpRow rows[] = {
    {"", "Conv", 1, conv},
};

} // namespace

ArrayRef<OpRow> getConvolutionRows() { return rows; }

} // namespace polyrank::frontends::onnx
