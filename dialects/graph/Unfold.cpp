// Sliding windows: unfold and its transpose, fold.

#include "dialects/graph/Parts.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::graph;

using Gradients = FailureOr<SmallVector<Value>>;

namespace {
/// How windows lie over one dim: element k of window o is element
/// o * stride + k * dilation - low of the dim.
struct Windows {
  int64_t size, stride, dilation, low;

  /// The border around the elements from o * stride to (o + b) * stride of the
  /// dim that the device with windows [o, o + b) reads or adds to.
  Border getBorder() const {
    return {stride, low,
            std::max<int64_t>(0, (size - 1) * dilation - low - stride + 1)};
  }
  LogicalResult verify(Operation *op, int64_t dim, int64_t rank) const {
    if (dim < 0 || dim >= rank)
      return op->emitOpError("[2] has windows along dim ")
             << dim << " of a tensor of rank " << rank;
    if (size < 1 || stride < 1 || dilation < 1 || low < 0)
      return op->emitOpError("[3] has windows of ")
             << size << " elements, " << dilation << " apart, every " << stride
             << ", from " << -low << " on; each of the first three is at least "
             << "1, and the first window does not begin inside";
    return success();
  }
  /// Calls `body(window element's offset, dim element's offset)`; the latter is
  /// -1 outside of the dim.
  void forEach(ArrayRef<int64_t> windows, ArrayRef<int64_t> whole, int64_t dim,
               function_ref<void(int64_t, int64_t)> body) const {
    SmallVector<int64_t> strides = getStrides(whole);
    int64_t offset = 0;
    forEachIndex(windows, [&](ArrayRef<int64_t> index) {
      int64_t at = 0;
      for (auto [d, i] : llvm::enumerate(index.drop_back())) {
        bool slides = static_cast<int64_t>(d) == dim;
        int64_t position =
            slides ? i * stride + index.back() * dilation - low : i;
        if (position < 0 || position >= whole[d]) {
          at = -1;
          break;
        }
        at += position * strides[d];
      }
      body(offset++, at);
    });
  }
};
} // namespace

static Windows windowsOf(UnfoldOp op) {
  return {static_cast<int64_t>(op.getSize()),
          static_cast<int64_t>(op.getStride()),
          static_cast<int64_t>(op.getDilation()),
          static_cast<int64_t>(op.getLow())};
}

static Windows windowsOf(FoldOp op) {
  return {getShape(op.getInput()).back(), static_cast<int64_t>(op.getStride()),
          static_cast<int64_t>(op.getDilation()),
          static_cast<int64_t>(op.getLow())};
}

// Unfold

/// The result has windows in place of the dim, and their elements last.
static SmallVector<int64_t> unfoldedShape(ArrayRef<int64_t> input, int64_t dim,
                                          int64_t size, int64_t stride,
                                          int64_t dilation, int64_t low,
                                          int64_t high) {
  SmallVector<int64_t> shape(input);
  shape[dim] =
      UnfoldOp::getNumWindows(low + shape[dim] + high, size, stride, dilation);
  shape.push_back(size);
  return shape;
}

void UnfoldOp::build(OpBuilder &builder, OperationState &state, Value input,
                     int64_t dim, int64_t size, int64_t stride,
                     int64_t dilation, int64_t low, int64_t high,
                     double value) {
  SmallVector<int64_t> shape =
      unfoldedShape(getShape(input), dim, size, stride, dilation, low, high);
  build(builder, state,
        RankedTensorType::get(
            shape, cast<RankedTensorType>(input.getType()).getElementType()),
        input, dim, size, stride, dilation, low, high, APFloat(value));
}

LogicalResult UnfoldOp::verify() {
  if (failed(verifySameElements(*this, {getInput(), getResult()})))
    return failure();
  int64_t dim = getDim();
  if (failed(windowsOf(*this).verify(*this, dim, getShape(getInput()).size())))
    return failure();
  if (static_cast<int64_t>(getHigh()) < 0)
    return emitOpError("[4] pads dim ")
           << dim << " by a negative number; use slice";
  SmallVector<int64_t> expected =
      unfoldedShape(getShape(getInput()), dim, getSize(), getStride(),
                    getDilation(), getLow(), getHigh());
  if (getShape(getResult()) != ArrayRef<int64_t>(expected))
    return emitOpError("[5] has a result of type ")
           << getResult().getType() << "; dim " << dim << " has "
           << expected[dim] << " windows of " << getSize() << " elements";
  return success();
}

/// A window reaches into the next block, so blocks of the operand need borders.
/// All other dims are parallel.
ShardingRule UnfoldOp::getShardingRule() {
  ShardingRule rule = emptyRule(*this);
  rule.passAll(0);
  if ((getLow() || getHigh()) && !isItsOwnSum(getValue()))
    rule.setPass(sharding::ReductionKind::Sum, 0, PartialPass::None);
  ArrayRef<int64_t> in = getShape(getInput()), out = getShape(getResult());
  for (int64_t d = 0, rank = in.size(); d < rank; ++d) {
    if (d == static_cast<int64_t>(getDim()))
      rule.addHalo(d, in[d], windowsOf(*this).getBorder(), d, out[d], {});
    else if (in[d] != 1)
      rule.operands[0][d] = rule.results[0][d] = {rule.addFactor(in[d])};
  }
  if (int64_t size = getSize(); size != 1)
    rule.results[0].back() = {rule.addFactor(size, FactorKind::Replicated)};
  return rule;
}

/// The block with its borders has everything that its windows need; elements
/// outside of the tensor are padding.
LogicalResult UnfoldOp::localize(LocalContext &context, ValueRange operands,
                                 SmallVectorImpl<Value> &results) {
  int64_t dim = getDim();
  sharding::LayoutAttr layout = sharding::getLayout(getInput());
  if (layout.getDim(dim).getAxes().empty())
    return localizeByCloning(*this, context, operands, results);
  if (failed(verifyBorders(*this, layout.getDim(dim),
                           windowsOf(*this).getBorder())))
    return failure();
  Value block = context.keepInside(getLoc(), operands[0], layout, dim,
                                   getShape(getInput())[dim],
                                   getValue().convertToDouble());
  Value windows = UnfoldOp::create(context.builder, getLoc(), block, dim,
                                   getSize(), getStride(), getDilation());
  int64_t wanted =
      sharding::getLocalType(cast<RankedTensorType>(getResult().getType()))
          .getDimSize(dim);
  if (getShape(windows)[dim] > wanted)
    windows = SliceOp::create(context.builder, getLoc(), windows, dim,
                              /*start=*/int64_t(0), wanted);
  results.push_back(windows);
  return success();
}

LogicalResult UnfoldOp::evaluate(ArrayRef<Tensor> operands,
                                 MutableArrayRef<Tensor> results) {
  Tensor &result = results[0];
  result = Tensor::splat(result.getType(), getValue().convertToDouble());
  windowsOf(*this).forEach(result.shape, operands[0].shape, getDim(),
                           [&](int64_t to, int64_t from) {
                             if (from >= 0)
                               result.copy(to, operands[0], from);
                           });
  return success();
}

/// Folds each window element's gradient back to its source.
Gradients UnfoldOp::buildGradient(OpBuilder &builder, ArrayRef<Value> gradients,
                                  ArrayRef<bool>) {
  return SmallVector<Value>{FoldOp::create(
      builder, getLoc(), gradients[0], getDim(), getShape(getInput())[getDim()],
      getStride(), getDilation(), getLow())};
}

// Fold

void FoldOp::build(OpBuilder &builder, OperationState &state, Value input,
                   int64_t dim, int64_t resultSize, int64_t stride,
                   int64_t dilation, int64_t low) {
  SmallVector<int64_t> shape(getShape(input).drop_back());
  shape[dim] = resultSize;
  build(builder, state,
        RankedTensorType::get(
            shape, cast<RankedTensorType>(input.getType()).getElementType()),
        input, dim, stride, dilation, low);
}

LogicalResult FoldOp::verify() {
  if (failed(verifySameElements(*this, {getInput(), getResult()})))
    return failure();
  ArrayRef<int64_t> in = getShape(getInput()), out = getShape(getResult());
  int64_t dim = getDim();
  if (in.empty())
    return emitOpError("[2] folds a scalar");
  if (failed(windowsOf(*this).verify(*this, dim, in.size() - 1)))
    return failure();
  SmallVector<int64_t> expected(in.drop_back());
  expected[dim] = dim < static_cast<int64_t>(out.size()) ? out[dim] : 0;
  if (out != ArrayRef<int64_t>(expected))
    return emitOpError("[4] has a result of type ")
           << getResult().getType() << "; all dims but " << dim
           << " are those of " << getInput().getType() << " without the last";
  return success();
}

ShardingRule FoldOp::getShardingRule() {
  ShardingRule rule = emptyRule(*this);
  rule.setPass(sharding::ReductionKind::Sum, 0, PartialPass::Any);
  ArrayRef<int64_t> in = getShape(getInput()), out = getShape(getResult());
  for (int64_t d = 0, rank = out.size(); d < rank; ++d) {
    if (d == static_cast<int64_t>(getDim()))
      rule.addHalo(d, in[d], {}, d, out[d], windowsOf(*this).getBorder());
    else if (in[d] != 1)
      rule.operands[0][d] = rule.results[0][d] = {rule.addFactor(in[d])};
  }
  if (in.back() != 1)
    rule.operands[0].back() = {
        rule.addFactor(in.back(), FactorKind::Replicated)};
  return rule;
}

/// Folds the windows of the block onto the block and the borders around it.
/// Windows that are padding add nothing.
LogicalResult FoldOp::localize(LocalContext &context, ValueRange operands,
                               SmallVectorImpl<Value> &results) {
  int64_t dim = getDim();
  sharding::LayoutAttr layout = sharding::getLayout(getInput());
  if (layout.getDim(dim).getAxes().empty())
    return localizeByCloning(*this, context, operands, results);
  if (failed(verifyBorders(*this, layout.getDim(dim), {})))
    return failure();
  Border border = windowsOf(*this).getBorder();
  Value windows =
      context.keepInside(getLoc(), operands[0], layout, dim,
                         getShape(getInput())[dim], /*elsewhere=*/0);
  results.push_back(FoldOp::create(
      context.builder, getLoc(), windows, dim,
      getShape(windows)[dim] * border.scale + border.low + border.high,
      getStride(), getDilation(), getLow() - border.low));
  return success();
}

LogicalResult FoldOp::evaluate(ArrayRef<Tensor> operands,
                               MutableArrayRef<Tensor> results) {
  Tensor &result = results[0];
  windowsOf(*this).forEach(
      operands[0].shape, result.shape, getDim(), [&](int64_t from, int64_t to) {
        if (to >= 0)
          result.set(to, result.at(to) + operands[0].at(from));
      });
  return success();
}

/// The gradient of a window's element is the result's gradient at its place.
Gradients FoldOp::buildGradient(OpBuilder &builder, ArrayRef<Value> gradients,
                                ArrayRef<bool>) {
  Windows windows = windowsOf(*this);
  int64_t dim = getDim(), count = getShape(getInput())[dim],
          size = getShape(getResult())[dim];
  int64_t reached =
      (count - 1) * windows.stride + (windows.size - 1) * windows.dilation + 1;
  int64_t high = std::max<int64_t>(0, reached - windows.low - size);
  Value unfolded =
      UnfoldOp::create(builder, getLoc(), gradients[0], dim, windows.size,
                       windows.stride, windows.dilation, windows.low, high);
  if (getShape(unfolded)[dim] > count)
    unfolded = SliceOp::create(builder, getLoc(), unfolded, dim,
                               /*start=*/int64_t(0), count);
  return SmallVector<Value>{unfolded};
}
