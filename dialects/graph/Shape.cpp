// Ops that give the same elements another shape: reshape, transpose, broadcast.

#include "dialects/graph/Parts.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::graph;
using sharding::ReductionKind;

using Gradients = FailureOr<SmallVector<Value>>;

// Reshape

void ReshapeOp::build(OpBuilder &builder, OperationState &state, Value input,
                      ArrayRef<int64_t> shape) {
  build(builder, state,
        RankedTensorType::get(
            shape, cast<RankedTensorType>(input.getType()).getElementType()),
        input);
}

LogicalResult ReshapeOp::verify() {
  if (failed(verifySameElements(*this, {getInput(), getResult()})))
    return failure();
  if (numElements(getShape(getInput())) != numElements(getShape(getResult())))
    return emitOpError("[2] gives ")
           << getInput().getType() << " the shape of " << getResult().getType()
           << ", which has another number of elements";
  return success();
}

OpFoldResult ReshapeOp::fold(FoldAdaptor) {
  if (getInput().getType() == getType())
    return getInput();
  return {};
}

/// Splits both shapes into their finest common factors: the walk takes the
/// smaller of the two remaining sizes while it divides the larger. If it does
/// not, the rest up to the next common boundary is one replicated factor on
/// each side.
ShardingRule ReshapeOp::getShardingRule() {
  ShardingRule rule = emptyRule(*this);
  ArrayRef<int64_t> in = getShape(getInput()), out = getShape(getResult());
  TensorFactors &inFactors = rule.operands[0], &outFactors = rule.results[0];
  rule.passAll(0);
  if (llvm::is_contained(in, 0))
    return rule;
  size_t i = 0, j = 0;
  int64_t restIn = 1, restOut = 1;
  while (true) {
    while (restIn == 1 && i < in.size())
      restIn = in[i++];
    while (restOut == 1 && j < out.size())
      restOut = out[j++];
    if (restIn == 1 || restOut == 1)
      break;
    int64_t size = std::min(restIn, restOut);
    if (std::max(restIn, restOut) % size == 0) {
      // The dim's more minor part has to follow in the other shape.
      int factor = rule.addFactor(size);
      inFactors[i - 1].push_back(factor);
      outFactors[j - 1].push_back(factor);
      restIn /= size;
      restOut /= size;
      continue;
    }
    // Incommensurable: one closed factor per dim up to a common boundary.
    auto close = [&](TensorFactors &factors, size_t dim, int64_t size) {
      factors[dim].push_back(rule.addFactor(size, FactorKind::Replicated));
    };
    close(inFactors, i - 1, restIn);
    close(outFactors, j - 1, restOut);
    int64_t left = restIn, right = restOut;
    while (left != right) {
      if (left < right) {
        if (in[i] != 1)
          close(inFactors, i, in[i]);
        left *= in[i++];
      } else {
        if (out[j] != 1)
          close(outFactors, j, out[j]);
        right *= out[j++];
      }
    }
    restIn = restOut = 1;
  }
  return rule;
}

LogicalResult ReshapeOp::evaluate(ArrayRef<Tensor> operands,
                                  MutableArrayRef<Tensor> results) {
  results[0] = operands[0].reshaped(results[0].shape);
  return success();
}

Gradients ReshapeOp::buildGradient(OpBuilder &builder,
                                   ArrayRef<Value> gradients, ArrayRef<bool>) {
  return SmallVector<Value>{
      ReshapeOp::create(builder, getLoc(), gradients[0], getShape(getInput()))};
}

// Transpose

static SmallVector<int64_t> permutedShape(ArrayRef<int64_t> shape,
                                          ArrayRef<int64_t> permutation) {
  return llvm::map_to_vector(permutation, [&](int64_t d) { return shape[d]; });
}

void TransposeOp::build(OpBuilder &builder, OperationState &state, Value input,
                        ArrayRef<int64_t> permutation) {
  RankedTensorType type = cast<RankedTensorType>(input.getType());
  build(builder, state,
        RankedTensorType::get(permutedShape(type.getShape(), permutation),
                              type.getElementType()),
        input, permutation);
}

LogicalResult TransposeOp::verify() {
  if (failed(verifySameElements(*this, {getInput(), getResult()})))
    return failure();
  SmallVector<int64_t> sorted(getPermutation());
  llvm::sort(sorted);
  ArrayRef<int64_t> in = getShape(getInput()), out = getShape(getResult());
  if (sorted != llvm::to_vector(llvm::seq<int64_t>(0, in.size())))
    return emitOpError("[2] needs a permutation of ") << in.size() << " dims";
  if (out != ArrayRef<int64_t>(permutedShape(in, getPermutation())))
    return emitOpError("[3] does not take ")
           << getInput().getType() << " to " << getResult().getType();
  return success();
}

OpFoldResult TransposeOp::fold(FoldAdaptor) {
  if (llvm::is_sorted(getPermutation()) && getInput().getType() == getType())
    return getInput();
  return {};
}

ShardingRule TransposeOp::getShardingRule() {
  ShardingRule rule = emptyRule(*this);
  rule.passAll(0);
  for (auto [i, d] : llvm::enumerate(getPermutation()))
    if (int64_t size = getShape(getInput())[d]; size != 1)
      rule.operands[0][d] = rule.results[0][i] = {rule.addFactor(size)};
  return rule;
}

LogicalResult TransposeOp::evaluate(ArrayRef<Tensor> operands,
                                    MutableArrayRef<Tensor> results) {
  SmallVector<int64_t> strides = getStrides(operands[0].shape);
  int64_t to = 0;
  forEachIndex(results[0].shape, [&](ArrayRef<int64_t> index) {
    int64_t from = 0;
    for (auto [i, d] : llvm::enumerate(getPermutation()))
      from += index[i] * strides[d];
    results[0].copy(to++, operands[0], from);
  });
  return success();
}

Gradients TransposeOp::buildGradient(OpBuilder &builder,
                                     ArrayRef<Value> gradients,
                                     ArrayRef<bool>) {
  SmallVector<int64_t> inverse(getPermutation().size());
  for (auto [i, d] : llvm::enumerate(getPermutation()))
    inverse[d] = i;
  return SmallVector<Value>{
      TransposeOp::create(builder, getLoc(), gradients[0], inverse)};
}

// Broadcast

void BroadcastOp::build(OpBuilder &builder, OperationState &state, Value input,
                        ArrayRef<int64_t> shape, ArrayRef<int64_t> dims) {
  build(builder, state,
        RankedTensorType::get(
            shape, cast<RankedTensorType>(input.getType()).getElementType()),
        input, dims);
}

LogicalResult BroadcastOp::verify() {
  if (failed(verifySameElements(*this, {getInput(), getResult()})))
    return failure();
  ArrayRef<int64_t> in = getShape(getInput()), out = getShape(getResult());
  if (getDims().size() != in.size())
    return emitOpError("[2] has ")
           << getDims().size() << " dims for an operand of " << in.size();
  for (auto [i, d] : llvm::enumerate(getDims())) {
    if (d < 0 || d >= static_cast<int64_t>(out.size()) ||
        (i && getDims()[i - 1] >= d))
      return emitOpError("[3] dims ascend and lie inside the result's rank of ")
             << out.size();
    if (in[i] != out[d])
      return emitOpError("[4] puts dim ")
             << i << " of size " << in[i] << " on dim " << d << " of size "
             << out[d] << "; reshape a dim of size 1 away";
  }
  return success();
}

OpFoldResult BroadcastOp::fold(FoldAdaptor) {
  if (getInput().getType() == getType())
    return getInput();
  return {};
}

ShardingRule BroadcastOp::getShardingRule() {
  ShardingRule rule = emptyRule(*this);
  rule.passAll(0);
  for (auto [d, size] : llvm::enumerate(getShape(getResult())))
    if (size != 1)
      rule.results[0][d] = {rule.addFactor(size)};
  for (auto [i, d] : llvm::enumerate(getDims()))
    rule.operands[0][i] = rule.results[0][d];
  return rule;
}

LogicalResult BroadcastOp::evaluate(ArrayRef<Tensor> operands,
                                    MutableArrayRef<Tensor> results) {
  SmallVector<int64_t> strides = getStrides(operands[0].shape);
  int64_t to = 0;
  forEachIndex(results[0].shape, [&](ArrayRef<int64_t> index) {
    int64_t from = 0;
    for (auto [i, d] : llvm::enumerate(getDims()))
      from += index[d] * strides[i];
    results[0].copy(to++, operands[0], from);
  });
  return success();
}

Gradients BroadcastOp::buildGradient(OpBuilder &builder,
                                     ArrayRef<Value> gradients,
                                     ArrayRef<bool>) {
  SmallVector<int64_t> added;
  for (int64_t d = 0, rank = getShape(getResult()).size(); d < rank; ++d)
    if (!llvm::is_contained(getDims(), d))
      added.push_back(d);
  if (added.empty())
    return SmallVector<Value>{gradients[0]};
  return SmallVector<Value>{ReduceOp::create(
      builder, getLoc(), ReductionKind::Sum, gradients[0], added)};
}
