// Finds layer_norm in parts.

#include "compiler/training/RaiseComposites.h"

#include "compiler/training/Forward.h"
#include "dialects/graph/Parts.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::getGlobalType;
using graph::getShape;
using shard::ReductionKind;

/// `value` before it was repeated along the last `count` dims of a tensor of
/// rank `rank`, through dims of size 1; null where it was not.
static Value beforeBroadcast(Value value, int64_t rank, int64_t count) {
  auto broadcast = value.getDefiningOp<graph::BroadcastOp>();
  if (!broadcast ||
      broadcast.getDims() != ArrayRef<int64_t>(llvm::to_vector(
                                 llvm::seq<int64_t>(0, rank - count))))
    return {};
  return broadcast.getInput();
}

/// The dims that only reshapes with dims of size 1 add are taken away.
static Value withoutUnitDims(Value value) {
  auto isUnit = [](int64_t size) { return size == 1; };
  while (auto reshape = value.getDefiningOp<graph::ReshapeOp>()) {
    SmallVector<int64_t> from(getShape(reshape.getInput()));
    SmallVector<int64_t> to(getShape(reshape));
    llvm::erase_if(from, isUnit);
    llvm::erase_if(to, isUnit);
    if (from != to)
      break;
    value = reshape.getInput();
  }
  return value;
}

/// `x` where `value` is its mean over the last `count` dims; else null.
static Value readMean(Value value, int64_t &count) {
  value = withoutUnitDims(value);
  Operation *op = value.getDefiningOp();
  double factor = 1;
  if (isa_and_nonnull<graph::MulOp, graph::DivOp>(op)) {
    std::optional<double> number = getSplat(op->getOperand(1));
    if (!number)
      return {};
    factor = isa<graph::MulOp>(op) ? *number : 1 / *number;
    value = withoutUnitDims(op->getOperand(0));
  }
  auto sum = value.getDefiningOp<graph::ReduceOp>();
  if (!sum || sum.getKind() != ReductionKind::Sum)
    return {};
  ArrayRef<int64_t> shape = getShape(sum.getInput());
  count = sum.getDims().size();
  if (sum.getDims() != ArrayRef<int64_t>(llvm::to_vector(llvm::seq<int64_t>(
                           shape.size() - count, shape.size()))) ||
      !isNear(factor, 1.0 / graph::numElements(shape.take_back(count))))
    return {};
  return sum.getInput();
}

/// (x - mean(x)) * rstd in the forms of exporters; `op` is the product.
bool training::raiseLayerNorm(Operation *op) {
  Value centered, scale;
  if (isa<graph::DivOp, graph::MulOp>(op)) {
    centered = op->getOperand(0);
    scale = op->getOperand(1);
  }
  auto difference =
      centered ? centered.getDefiningOp<graph::SubOp>() : graph::SubOp();
  if (!difference)
    return false;
  Value x = difference.getLhs();
  int64_t rank = getShape(x).size(), count = 0;
  // The divisor is sqrt(variance + epsilon), the factor its reciprocal.
  auto strip = [&](Value value) -> Value {
    auto broadcast = value.getDefiningOp<graph::BroadcastOp>();
    return broadcast ? withoutUnitDims(broadcast.getInput()) : Value();
  };
  Value mean = strip(difference.getRhs()), root = strip(scale);
  if (!mean || !root || readMean(mean, count) != x ||
      !beforeBroadcast(difference.getRhs(), rank, count) ||
      !beforeBroadcast(scale, rank, count))
    return false;
  Operation *rootOp = root.getDefiningOp();
  if (isa<graph::MulOp>(op)) {
    auto reciprocal = dyn_cast_or_null<graph::DivOp>(rootOp);
    if (reciprocal && getSplat(reciprocal.getLhs()) == 1.0)
      rootOp = withoutUnitDims(reciprocal.getRhs()).getDefiningOp();
    else if (!isa_and_nonnull<graph::RsqrtOp>(rootOp))
      return false;
  }
  if (!isa_and_nonnull<graph::SqrtOp, graph::RsqrtOp>(rootOp) ||
      (isa<graph::DivOp>(op) && isa<graph::RsqrtOp>(rootOp)))
    return false;
  auto shifted =
      withoutUnitDims(rootOp->getOperand(0)).getDefiningOp<graph::AddOp>();
  std::optional<double> epsilon =
      shifted ? getSplat(shifted.getRhs()) : std::nullopt;
  int64_t squareCount = 0;
  Value square = epsilon ? readMean(shifted.getLhs(), squareCount) : Value();
  if (!square || squareCount != count)
    return false;
  // The variance may subtract the mean anew.
  auto isCentered = [&](Value value) {
    auto other = value.getDefiningOp<graph::SubOp>();
    int64_t otherCount = 0;
    Value otherMean = other ? strip(other.getRhs()) : Value();
    return value == centered ||
           (otherMean && other.getLhs() == x &&
            readMean(otherMean, otherCount) == x && otherCount == count);
  };
  Operation *squareOp = square.getDefiningOp();
  bool isSquare = (isa_and_nonnull<graph::MulOp>(squareOp) &&
                   squareOp->getOperand(0) == squareOp->getOperand(1)) ||
                  (isa_and_nonnull<graph::PowOp>(squareOp) &&
                   getSplat(squareOp->getOperand(1)) == 2.0);
  if (!isSquare || !isCentered(squareOp->getOperand(0)))
    return false;

  // Scale and bias, where they follow.
  SmallVector<int64_t> columns =
      llvm::to_vector(llvm::seq<int64_t>(rank - count, rank));
  auto affine = [&](Value value,
                    bool isScale) -> std::pair<Operation *, Value> {
    if (!value.hasOneUse())
      return {};
    Operation *user = *value.getUsers().begin();
    if (isScale ? !isa<graph::MulOp>(user) : !isa<graph::AddOp>(user))
      return {};
    Value other = user->getOperand(user->getOperand(0) == value ? 1 : 0);
    auto broadcast = other.getDefiningOp<graph::BroadcastOp>();
    if (!broadcast || broadcast.getDims() != ArrayRef<int64_t>(columns))
      return {};
    return {user, broadcast.getInput()};
  };
  Operation *last = op;
  auto [scaleOp, scaleValue] = affine(op->getResult(0), true);
  if (scaleOp)
    last = scaleOp;
  auto [biasOp, biasValue] = affine(last->getResult(0), false);
  if (biasOp)
    last = biasOp;
  OpBuilder builder(last);
  auto type = RankedTensorType::get(getShape(x).take_back(count),
                                    getGlobalType(x).getElementType());
  if (!scaleValue)
    scaleValue = graph::splat(builder, op->getLoc(), type, 1);
  if (!biasValue)
    biasValue = graph::splat(builder, op->getLoc(), type, 0);
  auto norm = graph::LayerNormOp::create(builder, op->getLoc(), x, scaleValue,
                                         biasValue, *epsilon);
  if (Attribute scope = op->getAttr("graph.scope"))
    norm->setAttr("graph.scope", scope);
  last->getResult(0).replaceAllUsesWith(norm.getResult());
  return true;
}
