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

FailureOr<Optimizer> Optimizer::parse(StringRef text, EmitError emitError) {
  SmallVector<StringRef> flags{"nesterov", "amsgrad", "maximize"};
  llvm::append_range(flags, implementations);
  FailureOr<Call> call = parseCall(text, emitError, flags);
  if (failed(call))
    return failure();
  StringRef name = call->name;
  if (!name.consume_front("torch.optim."))
    name.consume_front("optim.");
  call->name = name.lower();
  Optimizer result;
  SmallVector<StringRef> order{"lr"};
  if (call->name == "sgd")
    order.append({"momentum", "dampening", "weight_decay", "nesterov"});
  else
    order.append({"betas", "eps", "weight_decay", "amsgrad"});
  if (failed(nameArguments(*call, order, emitError)))
    return failure();
  NamedArguments named(*call, emitError);
  named.take("lr", result.learningRate);
  if (call->name == "sgd") {
    result.kind = Kind::Sgd;
    named.take("momentum", result.momentum);
    named.take("dampening", result.dampening);
    named.take("nesterov", result.nesterov);
    if (result.momentum != 0)
      result.stateNames = {"momentum_buffer"};
  } else if (call->name == "adam" || call->name == "adamw") {
    result.kind = call->name == "adam" ? Kind::Adam : Kind::AdamW;
    result.weightDecay = call->name == "adam" ? 0 : 1e-2;
    named.takePair("betas", result.beta1, result.beta2);
    named.take("eps", result.epsilon);
    named.take("amsgrad", result.amsgrad);
    result.stateNames = {"exp_avg", "exp_avg_sq"};
    if (result.amsgrad)
      result.stateNames.push_back("max_exp_avg_sq");
  } else {
    return emitError() << "unknown optimizer '" << call->name
                       << "'; there are: sgd, adam, adamw"
                       << nearestWords(call->name, {"sgd", "adam", "adamw"});
  }
  named.take("weight_decay", result.weightDecay);
  named.take("maximize", result.maximize);
  named.take("decay", result.patterns);
  named.drop("params");
  for (StringRef word : implementations)
    if (named.drop(word))
      return emitError() << call->name << ": '" << word
                         << "' is how PyTorch computes the update, not what "
                            "it is; leave it out";
  if (failed(named.finish()))
    return failure();

  // PyTorch's own conditions.
  auto check = [&](bool holds, StringRef message) -> LogicalResult {
    if (!holds)
      emitError() << "'" << text << "': " << message;
    return success(holds);
  };
  auto isShare = [](double value) { return value >= 0 && value < 1; };
  if (failed(check(result.learningRate >= 0, "lr must not be negative")) ||
      failed(check(result.weightDecay >= 0,
                   "weight_decay must not be negative")) ||
      failed(check(result.momentum >= 0, "momentum must not be negative")) ||
      failed(check(!result.nesterov ||
                       (result.momentum > 0 && result.dampening == 0),
                   "nesterov needs a momentum and no dampening")) ||
      failed(check(isShare(result.beta1) && isShare(result.beta2),
                   "betas must be in [0, 1)")) ||
      failed(check(result.epsilon >= 0, "eps must not be negative")))
    return failure();
  for (const std::string &pattern : result.patterns) {
    auto glob = llvm::GlobPattern::create(pattern);
    if (!glob)
      return emitError() << "'" << text << "': bad pattern '" << pattern
                         << "': " << llvm::toString(glob.takeError());
  }
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

Value Optimizer::buildUpdate(Parts &parts, ArrayRef<std::string> names,
                             Value parameter, Value gradient,
                             MutableArrayRef<Value> states) const {
  double decay = decays(names) ? weightDecay : 0;
  if (maximize)
    gradient = parts.apply<graph::NegOp>(gradient);
  return kind == Kind::Sgd
             ? buildSgd(parts, decay, parameter, gradient, states)
             : buildAdam(parts, decay, parameter, gradient, states);
}
