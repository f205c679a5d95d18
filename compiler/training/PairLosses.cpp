// Losses of an output and a target of its shape, element by element.

#include "compiler/training/PairLosses.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::Comparison;
using graph::Parts;

ArrayRef<StringRef> polyrank::training::getPairLosses() {
  static constexpr StringRef names[] = {"mse", "l1", "smooth_l1", "huber",
                                        "binary_cross_entropy_with_logits"};
  return names;
}

StringRef polyrank::training::getPairLossName(StringRef name) {
  if (name == "bce_with_logits")
    return "binary_cross_entropy_with_logits";
  StringRef ours = name;
  ours.consume_back("_loss");
  return llvm::is_contained(getPairLosses(), ours) ? ours : name;
}

/// d^2 / 2 up to a distance of `bound`, and beyond that the tangent there, a
/// line of slope `bound`.
static Value buildHuber(Parts &parts, Value distance, double bound) {
  Value square = parts.mul(parts.mul(distance, distance), 0.5);
  Value line = parts.mul(parts.add(distance, -0.5 * bound), bound);
  Value isNear =
      parts.compare(distance, Comparison::LT, parts.splat(distance, bound));
  return parts.select(isNear, square, line);
}

Value polyrank::training::buildRow(Parts &parts, ArrayRef<double> numbers,
                                   Type elementType) {
  auto type = RankedTensorType::get({static_cast<int64_t>(numbers.size())},
                                    elementType);
  auto values = llvm::map_to_vector(numbers, [&](double number) -> Attribute {
    return parts.builder.getFloatAttr(elementType, number);
  });
  return graph::ConstantOp::create(parts.builder, parts.location, type,
                                   DenseElementsAttr::get(type, values));
}

/// (1 - t) x + w log(1 + e^-x), w = 1 + (p - 1) t: the negative logarithm of
/// the probability that the sigmoid of x gives to the target t, with weight p
/// for t = 1. There is one p, or one for each index of the last dim.
static Value buildBinary(Parts &parts, Value logits, Value target,
                         ArrayRef<double> positive) {
  Value one = parts.splat(target, 1);
  Value rest = parts.softplus(parts.apply<graph::NegOp>(logits));
  if (positive.size() > 1) {
    ArrayRef<int64_t> shape = graph::getShape(target);
    auto others = llvm::to_vector(llvm::seq<int64_t>(0, shape.size() - 1));
    Type element = graph::getGlobalType(target).getElementType();
    Value more = parts.add(buildRow(parts, positive, element), -1);
    Value weight = parts.mul(target, parts.broadcast(more, shape, others));
    rest = parts.mul(rest, parts.add(weight, 1));
  } else if (positive[0] != 1) {
    rest = parts.mul(rest, parts.add(parts.mul(target, positive[0] - 1), 1));
  }
  return parts.add(parts.mul(parts.sub(one, target), logits), rest);
}

FailureOr<Value> polyrank::training::buildPairLoss(Parts &parts,
                                                   const Call &call,
                                                   Value output, Value target,
                                                   EmitError emitError,
                                                   StringRef hint) {
  NamedArguments named(call, emitError);
  double bound = 1;
  SmallVector<double> positive{1};
  bool isHuber = call.name == "huber", isSmooth = call.name == "smooth_l1",
       isBinary = call.name == "binary_cross_entropy_with_logits";
  if (isHuber)
    named.take("delta", bound);
  if (isSmooth)
    named.take("beta", bound);
  if (isBinary)
    named.take("pos_weight", positive);
  if (failed(named.finish(hint)))
    return failure();
  ArrayRef<int64_t> shape = graph::getShape(output);
  if (positive.size() != 1 &&
      (shape.empty() || shape.back() != int64_t(positive.size())))
    return emitError() << call.name << ": pos_weight has " << positive.size()
                       << " numbers, but the last dim of the output has "
                       << (shape.empty() ? 1 : shape.back())
                       << " elements; give one for each, or one for all";
  if ((isHuber && bound <= 0) || (isSmooth && bound < 0) ||
      llvm::any_of(positive, [](double weight) { return !(weight > 0); }))
    return emitError() << call.name << ": "
                       << (isHuber    ? "delta must be positive"
                           : isSmooth ? "beta must not be negative"
                                      : "pos_weight must be positive");
  if (isBinary)
    return buildBinary(parts, output, target, positive);
  Value difference = parts.sub(output, target);
  if (call.name == "mse")
    return parts.mul(difference, difference);
  Value distance = parts.apply<graph::AbsOp>(difference);
  if (isHuber)
    return buildHuber(parts, distance, bound);
  if (isSmooth && bound > 0)
    return parts.mul(buildHuber(parts, distance, bound), 1 / bound);
  return distance;
}
