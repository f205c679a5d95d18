// Optimizers: options as text, updates as ops.

#include "compiler/training/Optimizer.h"

#include "support/Names.h"
#include "llvm/Support/GlobPattern.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::Comparison;
using graph::Parts;

/// What PyTorch calls how an update is computed, and not what it is.
constexpr StringRef implementations[] = {"foreach", "fused", "capturable",
                                         "differentiable"};

/// `torch.optim.AdamW(model.parameters(), 1e-3)` as `adamw(lr=1e-3)`: without
/// the module and the parameters, which are all that train, and with a name for
/// each positional argument. `order` is theirs in PyTorch.
static LogicalResult nameArguments(Call &call, ArrayRef<StringRef> order,
                                   EmitError emitError) {
  ArrayRef<std::string> given = call.positional;
  if (!given.empty() && (given.front() == "params" ||
                         StringRef(given.front()).ends_with("parameters()")))
    given = given.drop_front();
  for (auto [i, value] : llvm::enumerate(given)) {
    if (i == order.size())
      return emitError() << call.name << ": '" << value
                         << "' is one value too many; write KEY=VALUE";
    for (auto &[key, other] : call.named)
      if (key == order[i])
        return emitError() << call.name << ": '" << value << "' is " << key
                           << ", which is given as '" << key << "=" << other
                           << "' too";
    call.named.push_back({order[i].str(), value});
  }
  call.positional.clear();
  return success();
}

namespace {
struct KindEntry {
  StringRef name;
  /// PyTorch's positional arguments behind `lr`.
  SmallVector<StringRef> order;
};
} // namespace

static const KindEntry *findKind(StringRef name) {
  // In the order of Optimizer::Kind.
  static const KindEntry kinds[] = {
      {"sgd", {"momentum", "dampening", "weight_decay", "nesterov"}},
      {"adam", {"betas", "eps", "weight_decay", "amsgrad"}},
      {"adamw", {"betas", "eps", "weight_decay", "amsgrad"}},
      {"adagrad",
       {"lr_decay", "weight_decay", "initial_accumulator_value", "eps"}},
      {"rmsprop", {"alpha", "eps", "weight_decay", "momentum", "centered"}},
      {"lion", {"betas", "weight_decay"}},
  };
  const auto *it = llvm::find_if(
      kinds, [&](const KindEntry &kind) { return kind.name == name; });
  return it == std::end(kinds) ? nullptr : it;
}

void Optimizer::takeOptions(NamedArguments &named) {
  if (kind == Kind::Adagrad || kind == Kind::RmsProp)
    learningRate = 1e-2;
  if (kind == Kind::Lion)
    learningRate = 1e-4;
  named.take("lr", learningRate);
  switch (kind) {
  case Kind::Sgd:
    named.take("momentum", momentum);
    named.take("dampening", dampening);
    named.take("nesterov", nesterov);
    if (momentum != 0)
      states = {{"momentum_buffer"}};
    break;
  case Kind::Adam:
  case Kind::AdamW:
    weightDecay = kind == Kind::Adam ? 0 : 1e-2;
    named.takePair("betas", beta1, beta2);
    named.take("eps", epsilon);
    named.take("amsgrad", amsgrad);
    states = {{"exp_avg"}, {"exp_avg_sq"}};
    if (amsgrad)
      states.push_back({"max_exp_avg_sq"});
    break;
  case Kind::Adagrad:
    epsilon = 1e-10;
    named.take("lr_decay", rateDecay);
    named.take("initial_accumulator_value", firstSum);
    named.take("eps", epsilon);
    states = {{"sum", firstSum}};
    break;
  case Kind::RmsProp:
    named.take("alpha", alpha);
    named.take("eps", epsilon);
    named.take("momentum", momentum);
    named.take("centered", centered);
    states = {{"square_avg"}};
    if (momentum != 0)
      states.push_back({"momentum_buffer"});
    if (centered)
      states.push_back({"grad_avg"});
    break;
  case Kind::Lion:
    beta2 = 0.99;
    named.takePair("betas", beta1, beta2);
    states = {{"exp_avg"}};
    break;
  }
  named.take("weight_decay", weightDecay);
  named.take("maximize", maximize);
  named.take("decay", patterns);
}

LogicalResult Optimizer::check(StringRef text, EmitError emitError) const {
  auto isShare = [](double value) { return value >= 0 && value < 1; };
  const std::pair<bool, StringRef> conditions[] = {
      {learningRate >= 0, "lr must not be negative"},
      {weightDecay >= 0, "weight_decay must not be negative"},
      {momentum >= 0, "momentum must not be negative"},
      {!nesterov || (momentum > 0 && dampening == 0),
       "nesterov needs a momentum and no dampening"},
      {isShare(beta1) && isShare(beta2), "betas must be in [0, 1)"},
      {epsilon >= 0, "eps must not be negative"},
      {rateDecay >= 0, "lr_decay must not be negative"},
      {firstSum >= 0, "initial_accumulator_value must not be negative"},
      {alpha >= 0, "alpha must not be negative"},
  };
  for (auto [holds, message] : conditions)
    if (!holds)
      return emitError() << "'" << text << "': " << message;
  for (const std::string &pattern : patterns) {
    auto glob = llvm::GlobPattern::create(pattern);
    if (!glob)
      return emitError() << "'" << text << "': bad pattern '" << pattern
                         << "': " << llvm::toString(glob.takeError());
  }
  return success();
}

FailureOr<Optimizer> Optimizer::parse(StringRef text, EmitError emitError) {
  SmallVector<StringRef> flags{"nesterov", "amsgrad", "maximize", "centered"};
  llvm::append_range(flags, implementations);
  FailureOr<Call> call = parseCall(text, emitError, flags);
  if (failed(call))
    return failure();
  StringRef name = call->name;
  if (!name.consume_front("torch.optim."))
    name.consume_front("optim.");
  call->name = name.lower();
  const KindEntry *entry = findKind(call->name);
  if (!entry)
    return emitError() << "unknown optimizer '" << call->name
                       << "'; there are: sgd, adam, adamw, adagrad, rmsprop, "
                          "lion"
                       << nearestWords(call->name,
                                       {"sgd", "adam", "adamw", "adagrad",
                                        "rmsprop", "lion"});
  Optimizer result;
  result.kind = static_cast<Kind>(entry - findKind("sgd"));
  SmallVector<StringRef> order{"lr"};
  llvm::append_range(order, entry->order);
  if (failed(nameArguments(*call, order, emitError)))
    return failure();
  NamedArguments named(*call, emitError);
  result.takeOptions(named);
  named.drop("params");
  for (StringRef word : implementations)
    if (named.drop(word))
      return emitError() << call->name << ": '" << word
                         << "' is how PyTorch computes the update, not what "
                            "it is; leave it out";
  if (failed(named.finish()) || failed(result.check(text, emitError)))
    return failure();
  return result;
}

/// A GlobPattern refers to its text, so it is made where it is used.
static bool matches(StringRef pattern, StringRef name) {
  return llvm::cantFail(llvm::GlobPattern::create(pattern)).match(name);
}

bool Optimizer::decays(ArrayRef<std::string> names) const {
  return patterns.empty() || llvm::any_of(patterns, [&](StringRef pattern) {
           return llvm::any_of(names, [&](const std::string &name) {
             return matches(pattern, name);
           });
         });
}

LogicalResult Optimizer::checkPatterns(ArrayRef<std::string> names,
                                       EmitError emitError) const {
  for (const std::string &pattern : patterns)
    if (llvm::none_of(names, [&](const std::string &name) {
          return matches(pattern, name);
        }))
      return emitError() << "decay=" << pattern
                         << " matches no trainable parameter"
                         << nearestNames(pattern, names);
  return success();
}

/// An f64 scalar.
static Value number(Parts &parts, double value) {
  return graph::splat(parts.builder, parts.location,
                      RankedTensorType::get({}, parts.builder.getF64Type()),
                      value);
}

void Optimizer::buildScalars(Parts &parts, Value step) {
  Type f64 = parts.builder.getF64Type();
  if (kind == Kind::Sgd) {
    // The first momentum is the gradient itself, without dampening.
    if (momentum != 0 && dampening != 0) {
      Value isFirst = parts.compare(step, Comparison::EQ, parts.splat(step, 0));
      freshness =
          parts.select(isFirst, number(parts, 1), number(parts, 1 - dampening));
    }
    return;
  }
  if (kind == Kind::Adagrad)
    stepSize =
        parts.div(number(parts, learningRate),
                  parts.add(parts.mul(parts.convert(step, f64), rateDecay), 1));
  if (kind != Kind::Adam && kind != Kind::AdamW)
    return;
  // 1 - beta^t cancels for beta near 1: in f64, as PyTorch computes it.
  Value t = parts.add(parts.convert(step, f64), 1);
  auto rest = [&](double beta) {
    return parts.sub(number(parts, 1),
                     parts.apply<graph::PowOp>(number(parts, beta), t));
  };
  stepSize = parts.div(number(parts, learningRate), rest(beta1));
  correction = parts.apply<graph::SqrtOp>(rest(beta2));
}

Value Optimizer::buildSgd(Parts &parts, double decay, Value parameter,
                          Value gradient, MutableArrayRef<Value> states) const {
  if (decay != 0)
    gradient = parts.add(gradient, parts.mul(parameter, decay));
  if (momentum != 0) {
    Value fresh = gradient;
    if (freshness)
      fresh = parts.mul(gradient, parts.spread(freshness, gradient));
    states[0] = parts.add(parts.mul(states[0], momentum), fresh);
    gradient = nesterov ? parts.add(gradient, parts.mul(states[0], momentum))
                        : states[0];
  }
  return parts.sub(parameter, parts.mul(gradient, learningRate));
}

Value Optimizer::buildAdam(Parts &parts, double decay, Value parameter,
                           Value gradient,
                           MutableArrayRef<Value> states) const {
  if (decay != 0) {
    if (kind == Kind::AdamW)
      parameter = parts.mul(parameter, 1 - learningRate * decay);
    else
      gradient = parts.add(gradient, parts.mul(parameter, decay));
  }
  states[0] = parts.add(states[0],
                        parts.mul(parts.sub(gradient, states[0]), 1 - beta1));
  states[1] = parts.add(parts.mul(states[1], beta2),
                        parts.mul(parts.mul(gradient, gradient), 1 - beta2));
  Value second = states[1];
  if (amsgrad)
    second = states[2] = parts.apply<graph::MaxOp>(states[2], states[1]);
  Value root = parts.div(parts.apply<graph::SqrtOp>(second),
                         parts.spread(correction, second));
  Value step = parts.mul(parts.div(states[0], parts.add(root, epsilon)),
                         parts.spread(stepSize, states[0]));
  return parts.sub(parameter, step);
}

Value Optimizer::buildAdagrad(Parts &parts, Value parameter, Value gradient,
                              MutableArrayRef<Value> states) const {
  states[0] = parts.add(states[0], parts.mul(gradient, gradient));
  Value root = parts.add(parts.apply<graph::SqrtOp>(states[0]), epsilon);
  return parts.sub(parameter, parts.mul(parts.div(gradient, root),
                                        parts.spread(stepSize, gradient)));
}

Value Optimizer::buildRmsProp(Parts &parts, Value parameter, Value gradient,
                              MutableArrayRef<Value> states) const {
  states[0] = parts.add(parts.mul(states[0], alpha),
                        parts.mul(parts.mul(gradient, gradient), 1 - alpha));
  Value square = states[0];
  if (centered) {
    Value &mean = states.back();
    mean = parts.add(mean, parts.mul(parts.sub(gradient, mean), 1 - alpha));
    square = parts.sub(square, parts.mul(mean, mean));
  }
  Value root = parts.add(parts.apply<graph::SqrtOp>(square), epsilon);
  Value scaled = parts.div(gradient, root);
  if (momentum != 0)
    scaled = states[1] = parts.add(parts.mul(states[1], momentum), scaled);
  return parts.sub(parameter, parts.mul(scaled, learningRate));
}

/// The sign of a mean of gradient and momentum is the step.
Value Optimizer::buildLion(Parts &parts, double decay, Value parameter,
                           Value gradient,
                           MutableArrayRef<Value> states) const {
  Value mean =
      parts.add(parts.mul(states[0], beta1), parts.mul(gradient, 1 - beta1));
  Value zero = parts.splat(mean, 0), one = parts.splat(mean, 1);
  Value sign = parts.sub(
      parts.select(parts.compare(mean, Comparison::GT, zero), one, zero),
      parts.select(parts.compare(mean, Comparison::LT, zero), one, zero));
  states[0] =
      parts.add(parts.mul(states[0], beta2), parts.mul(gradient, 1 - beta2));
  if (decay != 0)
    parameter = parts.mul(parameter, 1 - learningRate * decay);
  return parts.sub(parameter, parts.mul(sign, learningRate));
}

Value Optimizer::buildUpdate(Parts &parts, ArrayRef<std::string> names,
                             Value parameter, Value gradient,
                             MutableArrayRef<Value> states) const {
  double decay = decays(names) ? weightDecay : 0;
  if (maximize)
    gradient = parts.apply<graph::NegOp>(gradient);
  switch (kind) {
  case Kind::Sgd:
    return buildSgd(parts, decay, parameter, gradient, states);
  case Kind::Adam:
  case Kind::AdamW:
    return buildAdam(parts, decay, parameter, gradient, states);
  case Kind::Lion:
    return buildLion(parts, decay, parameter, gradient, states);
  case Kind::Adagrad:
  case Kind::RmsProp:
    if (decay != 0)
      gradient = parts.add(gradient, parts.mul(parameter, decay));
    return kind == Kind::Adagrad
               ? buildAdagrad(parts, parameter, gradient, states)
               : buildRmsProp(parts, parameter, gradient, states);
  }
  llvm_unreachable("each kind has an update");
}
