// Finds logarithms whose argument overflows or vanishes before they bring it
// back: log(sigmoid(x)), log(1 - sigmoid(x)), log(1 + e^x), log(e^x + e^y) and
// log(softmax(x)).

#include "compiler/training/RaiseComposites.h"

#include "compiler/training/Forward.h"
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

/// 1 - x, or 1 + -x: then x, else null.
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

} // namespace

bool training::raiseLogarithm(graph::LogOp op) {
  graph::ProvenanceCopier copier(op);
  OpBuilder builder(op, &copier);
  Parts parts(builder, op.getLoc());
  Value stable = buildLogarithm(parts, op.getInput());
  if (!stable)
    return false;
  op.getResult().replaceAllUsesWith(stable);
  return true;
}
