// Parses --loss-scale, and builds the scale, the decision and the next states.

#include "compiler/training/LossScale.h"

#include <charconv>
#include <cmath>

#include "dialects/graph/ElementTypes.h"
#include "support/Names.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::Comparison;
using graph::Parts;

/// The shortest text of a number: 65536, 0.3, 1e-38.
static std::string textOf(double value) {
  char text[32];
  auto [end, error] = std::to_chars(std::begin(text), std::end(text), value);
  return {text, end};
}

static bool isPowerOfTwo(double value) {
  int exponent = 0;
  return std::isfinite(value) && std::frexp(value, &exponent) == 0.5;
}

/// Fails unless `value` is a power of two that, like its inverse, is a normal
/// f32. `what` is its name in messages.
static LogicalResult checkFactor(const Twine &what, double value,
                                 EmitError emitError) {
  if (!(std::isfinite(value) && value > 0))
    return emitError() << what << ": must be positive and finite";
  if (value < 1 / LossScale::largest || value > LossScale::largest)
    return emitError() << what << ": must be from 2^-126 to 2^126, so that it "
                       << "and its inverse are exact numbers of f32";
  if (isPowerOfTwo(value))
    return success();
  double below = std::exp2(std::floor(std::log2(value)));
  return emitError() << what << ": must be a power of two, so that scaling "
                     << "changes no bit of a gradient; the nearest are "
                     << textOf(below) << " and " << textOf(2 * below);
}

FailureOr<LossScale> LossScale::parse(StringRef text, bool skipNonfinite,
                                      EmitError emitError) {
  LossScale result;
  result.skipping = skipNonfinite;
  text = text.trim();
  if (text.empty())
    return result;
  double number = 0;
  if (!text.getAsDouble(number)) {
    result.init = number;
    if (failed(checkFactor("--loss-scale " + text, number, emitError)))
      return failure();
    return result;
  }
  if (failed(result.parseDynamic(text, emitError)))
    return failure();
  if (skipNonfinite)
    return emitError() << "--skip-nonfinite and --loss-scale '" << text
                       << "': a dynamic scale skips steps that are not finite "
                          "by itself; leave --skip-nonfinite out";
  result.dynamic = result.skipping = true;
  return result;
}

LogicalResult LossScale::parseDynamic(StringRef text, EmitError emitError) {
  FailureOr<Call> call =
      parseCall(text, [&] { return emitError() << "--loss-scale: "; });
  if (failed(call))
    return failure();
  if (call->name != "dynamic") {
    std::vector<std::string> known{"dynamic"};
    return emitError() << "--loss-scale '" << text
                       << "': expected a number, such as 1024, or dynamic(..)"
                       << nearestWords(call->name, known);
  }
  if (!call->positional.empty())
    return emitError() << "--loss-scale: dynamic: '" << call->positional.front()
                       << "' is not KEY=VALUE, as in init=65536";
  NamedArguments named(*call, [&] { return emitError() << "--loss-scale: "; });
  init = 65536;
  named.take("init", init);
  named.take("growth", growth);
  named.take("backoff", backoff);
  named.take("window", window);
  named.take("hysteresis", hysteresis);
  named.take("min", min);
  if (failed(named.finish()))
    return failure();
  for (auto [name, value] : {std::pair("init", init),
                             {"growth", growth},
                             {"backoff", backoff},
                             {"min", min}})
    if (failed(checkFactor("--loss-scale: dynamic: " + Twine(name) + "=" +
                               textOf(value),
                           value, emitError)))
      return failure();
  std::string wrong;
  if (growth <= 1)
    wrong =
        "growth=" + textOf(growth) + ": must be more than 1; write growth=2";
  else if (backoff >= 1)
    wrong = "backoff=" + textOf(backoff) +
            ": must be less than 1; write backoff=0.5";
  else if (min > init)
    wrong = "min=" + textOf(min) + " is more than init=" + textOf(init) +
            ", from which the scale starts";
  else if (window < 1)
    wrong = "window=" + std::to_string(window) +
            ": must be at least 1, the number of updates in a row after which "
            "the scale grows";
  else if (hysteresis < 1)
    wrong = "hysteresis=" + std::to_string(hysteresis) +
            ": must be at least 1, the number of steps that are not finite "
            "until the scale is lowered";
  if (!wrong.empty())
    return emitError() << "--loss-scale: dynamic: " << wrong;
  return success();
}

SmallVector<LossScale::State> LossScale::getStates(MLIRContext *context) const {
  Type integer = IntegerType::get(context, 64);
  SmallVector<State> states;
  if (skipping) {
    states.push_back({"updates", integer});
    states.push_back({"skipped_steps", integer});
  }
  if (dynamic) {
    states.push_back({"loss_scale", graph::statisticType(context), init});
    states.push_back({"updates_in_a_row", integer});
    states.push_back({"not_finite", integer});
  }
  return states;
}

void LossScale::setStates(ValueRange values) {
  Value *states[] = {&updates, &skippedSteps, &scale, &inARow, &notFinite};
  for (auto [state, value] : llvm::zip(states, values))
    *state = value;
}

Value LossScale::scaleSeed(Parts &parts, Value seed) const {
  return dynamic ? parts.mul(seed, parts.spread(scale, seed)) : seed;
}

Value LossScale::unscale(Parts &parts, Value gradient) const {
  if (!dynamic)
    return init == 1 ? gradient : parts.mul(gradient, 1 / init);
  Value inverse = parts.div(parts.splat(scale, 1), scale);
  return parts.mul(gradient, parts.spread(inverse, gradient));
}

/// The largest finite number of a float type.
static double getLargest(Type type) {
  bool ignored = false;
  llvm::APFloat largest =
      llvm::APFloat::getLargest(cast<FloatType>(type).getFloatSemantics());
  largest.convert(llvm::APFloat::IEEEdouble(),
                  llvm::APFloat::rmNearestTiesToEven, &ignored);
  return largest.convertToDouble();
}

void LossScale::buildDecision(Parts &parts, Value norm) {
  // NaN is not less than or equal to anything.
  applies = parts.compare(
      norm, Comparison::LE,
      parts.splat(norm,
                  getLargest(graph::getGlobalType(norm).getElementType())));
  nextStates.push_back(parts.select(applies, parts.add(updates, 1), updates));
  Value total = parts.select(applies, skippedSteps, parts.add(skippedSteps, 1));
  nextStates.push_back(total);
  auto number = [&](double value) {
    return graph::splat(
        parts.builder, parts.location,
        RankedTensorType::get({},
                              graph::statisticType(parts.builder.getContext())),
        value);
  };
  Value failed = number(Skipped);
  if (dynamic) {
    buildNextScale(parts);
    outputs.push_back({"loss_scale", scale});
    Value canLower =
        parts.compare(scale, Comparison::GT, parts.splat(scale, min));
    Value isTolerated =
        parts.compare(parts.add(notFinite, 1), Comparison::LT,
                      parts.splat(notFinite, static_cast<double>(hysteresis)));
    failed = parts.select(isTolerated, failed,
                          parts.select(canLower, failed, number(Stuck)));
  }
  outcome = parts.select(applies, number(Applied), failed);
  outputs.push_back({"skipped", outcome});
  outputs.push_back({"skipped_total", total});
}

void LossScale::buildNextScale(Parts &parts) {
  Value none = parts.splat(inARow, 0);
  Value good = parts.add(inARow, 1), bad = parts.add(notFinite, 1);
  Value grows = parts.compare(good, Comparison::GE,
                              parts.splat(good, static_cast<double>(window)));
  Value larger = parts.apply<graph::MinOp>(parts.mul(scale, growth),
                                           parts.splat(scale, largest));
  Value most = parts.splat(bad, static_cast<double>(hysteresis));
  Value isDue = parts.compare(bad, Comparison::GE, most);
  Value smaller = parts.apply<graph::MaxOp>(parts.mul(scale, backoff),
                                            parts.splat(scale, min));
  nextStates.push_back(parts.select(applies, parts.select(grows, larger, scale),
                                    parts.select(isDue, smaller, scale)));
  nextStates.push_back(
      parts.select(applies, parts.select(grows, none, good), none));
  // The count stays at the hysteresis until the scale grows.
  nextStates.push_back(parts.select(applies,
                                    parts.select(grows, none, notFinite),
                                    parts.apply<graph::MinOp>(bad, most)));
}

/// A scalar boolean for each element of `like`.
static Value spreadCondition(Parts &parts, Value condition, Value like) {
  auto shape = graph::getShape(like);
  return shape.empty()
             ? condition
             : parts.broadcast(
                   condition, shape,
                   llvm::to_vector(llvm::seq<int64_t>(0, shape.size())));
}

Value LossScale::keep(Parts &parts, Value next, Value old) const {
  if (!skipping || next == old)
    return next;
  return parts.select(spreadCondition(parts, applies, next), next, old);
}

Value LossScale::keepParameter(Parts &parts, Value next, Value old,
                               Value gradient) const {
  if (!dynamic)
    return keep(parts, next, old);
  // An infinite or NaN gradient minus itself is NaN, any other one zero.
  Value marked = parts.add(old, parts.sub(gradient, gradient));
  Value isStuck =
      parts.compare(outcome, Comparison::EQ, parts.splat(outcome, Stuck));
  return keep(parts, next,
              parts.select(spreadCondition(parts, isStuck, old), marked, old));
}
