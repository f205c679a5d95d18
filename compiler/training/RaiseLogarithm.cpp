// Raises logarithms whose argument overflows or vanishes although the result
// would not: log(sigmoid(x)), log(1 - sigmoid(x)), log(1 + e^x), log(e^x + e^y)
// and log(softmax(x)), also where they are written with log1p. Those of
// binary_cross_entropy, which PyTorch bounds, stay.

#include "compiler/training/RaiseComposites.h"

#include "dialects/graph/Forward.h"
#include "dialects/graph/Parts.h"
#include "dialects/graph/Provenance.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::Parts;
using sharding::ReductionKind;

namespace {

bool isOne(Value value) { return graph::getSplat(value) == 1.0; }

Value logSoftmax(Parts &parts, Value x, int64_t dim) {
  ArrayRef<int64_t> shape = graph::getShape(x);
  auto spread = [&](Value reduced) {
    SmallVector<int64_t> dims{dim};
    return parts.broadcast(reduced, shape, dims);
  };
  Value shifted =
      parts.sub(x, spread(parts.reduce(ReductionKind::Max, x, {dim})));
  Value sum = parts.sum(parts.exp(shifted), {dim});
  return parts.sub(shifted, spread(parts.apply<graph::LogOp>(sum)));
}

/// Returns x for 1 - x or 1 + -x, else null.
Value findComplement(Value value) {
  if (auto difference = value.getDefiningOp<graph::SubOp>())
    return isOne(difference.getLhs()) ? difference.getRhs() : Value();
  auto sum = value.getDefiningOp<graph::AddOp>();
  if (!sum)
    return {};
  for (auto [one, other] : {std::pair(sum.getLhs(), sum.getRhs()),
                            std::pair(sum.getRhs(), sum.getLhs())})
    if (auto negated = other.getDefiningOp<graph::NegOp>();
        negated && isOne(one))
      return negated.getInput();
  return {};
}

/// The stable form of log(argument), or null.
Value buildLogarithm(Parts &parts, Value argument) {
  auto negate = [&](Value x) { return parts.apply<graph::NegOp>(x); };
  if (auto sigmoid = argument.getDefiningOp<graph::SigmoidOp>())
    return negate(parts.softplus(negate(sigmoid.getInput())));
  if (Value rest = findComplement(argument)) {
    auto sigmoid = rest.getDefiningOp<graph::SigmoidOp>();
    return sigmoid ? negate(parts.softplus(sigmoid.getInput())) : Value();
  }
  if (auto softmax = argument.getDefiningOp<graph::SoftmaxOp>())
    return logSoftmax(parts, softmax.getInput(), softmax.getDim());
  auto sum = argument.getDefiningOp<graph::AddOp>();
  if (!sum)
    return {};
  auto left = sum.getLhs().getDefiningOp<graph::ExpOp>();
  auto right = sum.getRhs().getDefiningOp<graph::ExpOp>();
  if (left && right)
    return parts.logOfSum(left.getInput(), right.getInput());
  if (left && isOne(sum.getRhs()))
    return parts.softplus(left.getInput());
  if (right && isOne(sum.getLhs()))
    return parts.softplus(right.getInput());
  return {};
}

/// Returns max(log x, -100), written as a maximum or a select, if the logarithm
/// is bounded so; else null.
Value findBounded(Value log) {
  auto isBound = [](Value value) { return graph::getSplat(value) == -100.0; };
  for (Operation *user : log.getUsers()) {
    if (auto most = dyn_cast<graph::MaxOp>(user))
      if (isBound(most.getLhs()) || isBound(most.getRhs()))
        return most;
    auto select = dyn_cast<graph::SelectOp>(user);
    if (!select || select.getOnFalse() != log || !isBound(select.getOnTrue()))
      continue;
    auto compare = select.getCondition().getDefiningOp<graph::CompareOp>();
    if (compare && compare.getComparison() == graph::Comparison::LT &&
        compare.getLhs() == log && isBound(compare.getRhs()))
      return select;
  }
  return {};
}

/// Returns true if a user of `value` is a bounded logarithm.
bool hasBoundedLogarithm(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) {
    auto log = dyn_cast<graph::LogOp>(user);
    return log && findBounded(log.getResult());
  });
}

/// Returns true if log x has a counterpart log(1 - x) that is bounded too, or
/// vice versa.
bool isOfBinaryCrossEntropy(graph::LogOp op) {
  Value x = op.getInput();
  if (Value rest = findComplement(x))
    return hasBoundedLogarithm(rest);
  auto isComplement = [&](Operation *user) {
    return user->getNumResults() == 1 &&
           findComplement(user->getResult(0)) == x &&
           hasBoundedLogarithm(user->getResult(0));
  };
  for (Operation *user : x.getUsers())
    if (isComplement(user) || (isa<graph::NegOp>(user) &&
                               llvm::any_of(user->getUsers(), isComplement)))
      return true;
  return false;
}

/// Gives the bounded logarithm of a probability p PyTorch's gradient of
/// binary_cross_entropy: (1 - p) / max((1 - p) p, 1e-12), which is 1 / p unless
/// (1 - p) p is less than 1e-12, and never infinite or NaN.
void giveBoundedGradient(Value bounded, Value p) {
  OpBuilder builder(bounded.getContext());
  builder.setInsertionPointAfter(bounded.getDefiningOp());
  graph::ProvenanceCopier copier(bounded.getDefiningOp());
  builder.setListener(&copier);
  Parts parts(builder, bounded.getLoc());
  Value constant = parts.apply<graph::DetachOp>(p);
  Value rest = parts.sub(parts.splat(p, 1), constant);
  Value slope =
      parts.div(rest, parts.apply<graph::MaxOp>(parts.mul(rest, constant),
                                                parts.splat(p, 1e-12)));
  auto value = graph::DetachOp::create(builder, bounded.getLoc(), bounded);
  // The change is zero, and its gradient is the slope.
  Value change = parts.mul(parts.sub(p, constant), slope);
  bounded.replaceAllUsesExcept(parts.add(value, change), value);
}

/// Returns z for z / (z + 2), else null.
Value findRatioTo2(Value value) {
  auto ratio = value.getDefiningOp<graph::DivOp>();
  auto sum = ratio ? ratio.getRhs().getDefiningOp<graph::AddOp>() : nullptr;
  if (!sum)
    return {};
  Value z = ratio.getLhs();
  return (sum.getLhs() == z && graph::getSplat(sum.getRhs()) == 2.0) ||
                 (sum.getRhs() == z && graph::getSplat(sum.getLhs()) == 2.0)
             ? z
             : Value();
}

} // namespace

bool training::spellLog1p(graph::AtanhOp op) {
  Value z = findRatioTo2(op.getInput());
  if (!z || !op.getResult().hasOneUse())
    return false;
  auto twice = dyn_cast<graph::MulOp>(*op.getResult().user_begin());
  if (!twice || (graph::getSplat(twice.getLhs()) != 2.0 &&
                 graph::getSplat(twice.getRhs()) != 2.0))
    return false;
  // Other logarithms keep the digits of a small z.
  auto negated = z.getDefiningOp<graph::NegOp>();
  if (!z.getDefiningOp<graph::ExpOp>() &&
      !(negated && (negated.getInput().getDefiningOp<graph::SigmoidOp>() ||
                    findBounded(twice.getResult()))))
    return false;
  graph::ProvenanceCopier copier(op);
  OpBuilder builder(op, &copier);
  Parts parts(builder, op.getLoc());
  Value log = parts.apply<graph::LogOp>(parts.add(z, parts.splat(z, 1)));
  twice.getResult().replaceAllUsesWith(log);
  return true;
}

bool training::raiseLogarithm(graph::LogOp op) {
  if (Value bounded = findBounded(op.getResult());
      bounded && isOfBinaryCrossEntropy(op)) {
    giveBoundedGradient(bounded, op.getInput());
    return true;
  }
  graph::ProvenanceCopier copier(op);
  OpBuilder builder(op, &copier);
  Parts parts(builder, op.getLoc());
  Value stable = buildLogarithm(parts, op.getInput());
  if (!stable)
    return false;
  op.getResult().replaceAllUsesWith(stable);
  return true;
}
