// Raises layer_norm and rms_norm from their ops.

#include "compiler/training/RaiseComposites.h"

#include "dialects/graph/Forward.h"
#include "dialects/graph/Parts.h"
#include "dialects/graph/Provenance.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::getGlobalType;
using graph::getShape;
using sharding::ReductionKind;

/// Returns the operand of a broadcast along the last `count` dims of a tensor
/// of rank `rank`; null for other values.
static Value beforeBroadcast(Value value, int64_t rank, int64_t count) {
  auto broadcast = value.getDefiningOp<graph::BroadcastOp>();
  if (!broadcast ||
      broadcast.getDims() != ArrayRef<int64_t>(llvm::to_vector(
                                 llvm::seq<int64_t>(0, rank - count))))
    return {};
  return broadcast.getInput();
}

/// Returns x if `value` is the mean of x over its last `count` dims; else null.
static Value readMean(Value value, int64_t &count) {
  value = graph::withoutUnitDims(value);
  Operation *op = value.getDefiningOp();
  double factor = 1;
  if (isa_and_nonnull<graph::MulOp, graph::DivOp>(op)) {
    std::optional<double> number = graph::getSplat(op->getOperand(1));
    if (!number)
      return {};
    factor = isa<graph::MulOp>(op) ? *number : 1 / *number;
    value = graph::withoutUnitDims(op->getOperand(0));
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

/// Returns the operand of a broadcast along the last `count` dims, without dims
/// of size 1; null for other values.
static Value perRow(Value value, int64_t rank, int64_t count) {
  Value input = beforeBroadcast(value, rank, count);
  return input ? graph::withoutUnitDims(input) : Value();
}

/// Returns x if `value` is x - mean(x) over the last `count` dims; else null.
static Value beforeCentering(Value value, int64_t count) {
  auto difference = value.getDefiningOp<graph::SubOp>();
  if (!difference)
    return {};
  Value x = difference.getLhs();
  int64_t meanCount = 0;
  Value mean = perRow(difference.getRhs(), getShape(x).size(), count);
  return mean && readMean(mean, meanCount) == x && meanCount == count ? x
                                                                      : Value();
}

/// Returns true if both are the same value, or the same value minus its mean.
static bool isSame(Value left, Value right, int64_t count) {
  if (left == right)
    return true;
  Value x = beforeCentering(left, count);
  return x && beforeCentering(right, count) == x;
}

/// Returns x if `value` is x^2; else null.
static Value readSquare(Value value) {
  if (auto product = value.getDefiningOp<graph::MulOp>())
    return product.getLhs() == product.getRhs() ? product.getLhs() : Value();
  auto power = value.getDefiningOp<graph::PowOp>();
  return power && graph::getSplat(power.getRhs()) == 2.0 ? power.getLhs()
                                                         : Value();
}

namespace {
/// x / sqrt(mean(x^2) + epsilon), the mean over the last `count` dims.
struct Normalized {
  Value x;
  double epsilon;
  int64_t count;
};
} // namespace

/// Reads the quotient or product of `x` and the row's `deviation`, in the forms
/// of exporters: x / sqrt(v), x * (1 / sqrt(v)), x * rsqrt(v), v = mean + eps.
static std::optional<Normalized> readNormalized(Value x, Value deviation,
                                                bool isDivision) {
  auto broadcast = deviation.getDefiningOp<graph::BroadcastOp>();
  Operation *root =
      broadcast ? graph::withoutUnitDims(broadcast.getInput()).getDefiningOp()
                : nullptr;
  if (!isDivision) {
    auto reciprocal = dyn_cast_or_null<graph::DivOp>(root);
    if (reciprocal && graph::getSplat(reciprocal.getLhs()) == 1.0)
      root = graph::withoutUnitDims(reciprocal.getRhs()).getDefiningOp();
    else if (!isa_and_nonnull<graph::RsqrtOp>(root))
      return {};
  }
  if (!isa_and_nonnull<graph::SqrtOp, graph::RsqrtOp>(root) ||
      (isDivision && isa<graph::RsqrtOp>(root)))
    return {};
  auto shifted =
      graph::withoutUnitDims(root->getOperand(0)).getDefiningOp<graph::AddOp>();
  if (!shifted)
    return {};
  Value mean = shifted.getLhs();
  std::optional<double> epsilon = graph::getSplat(shifted.getRhs());
  if (!epsilon) {
    mean = shifted.getRhs();
    epsilon = graph::getSplat(shifted.getLhs());
  }
  int64_t count = 0;
  Value squares = epsilon ? readMean(mean, count) : Value();
  Value squared = squares ? readSquare(squares) : Value();
  if (!squared || !isSame(squared, x, count) ||
      !beforeBroadcast(deviation, getShape(x).size(), count))
    return {};
  return Normalized{x, *epsilon, count};
}

static std::optional<Normalized> readNormalized(Operation *op) {
  if (!isa<graph::DivOp, graph::MulOp>(op))
    return {};
  bool isDivision = isa<graph::DivOp>(op);
  auto normalized =
      readNormalized(op->getOperand(0), op->getOperand(1), isDivision);
  if (!normalized && !isDivision)
    normalized = readNormalized(op->getOperand(1), op->getOperand(0), false);
  return normalized;
}

bool training::raiseNormalization(Operation *op) {
  std::optional<Normalized> normalized = readNormalized(op);
  if (!normalized)
    return false;
  int64_t count = normalized->count;
  Value input = beforeCentering(normalized->x, count);
  bool isCentered = input != nullptr;
  Value x = isCentered ? input : normalized->x;
  int64_t rank = getShape(x).size();

  // Scale and bias, if they follow.
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
  Value biasValue;
  if (isCentered) {
    auto [biasOp, value] = affine(last->getResult(0), false);
    biasValue = value;
    if (biasOp)
      last = biasOp;
  }
  OpBuilder builder(last);
  auto type = RankedTensorType::get(getShape(x).take_back(count),
                                    getGlobalType(x).getElementType());
  if (!scaleValue)
    scaleValue = graph::splat(builder, op->getLoc(), type, 1);
  if (isCentered && !biasValue)
    biasValue = graph::splat(builder, op->getLoc(), type, 0);
  Operation *norm =
      isCentered
          ? graph::LayerNormOp::create(builder, op->getLoc(), x, scaleValue,
                                       biasValue, normalized->epsilon)
                .getOperation()
          : graph::RmsNormOp::create(builder, op->getLoc(), x, scaleValue,
                                     normalized->epsilon)
                .getOperation();
  graph::copyProvenance(op, norm);
  last->getResult(0).replaceAllUsesWith(norm->getResult(0));
  return true;
}
