// Elementwise optimizers: PyTorch's SGD, Adam, AdamW, Adagrad and RMSprop
// (2.x), and Lion (Chen et al., Symbolic Discovery of Optimization Algorithms,
// 2023, program 1).

#include "compiler/training/UpdateRule.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::Comparison;
using graph::Parts;

namespace {

class Sgd : public ElementwiseRule {
  ArrayRef<StringRef> getOwnOrder() const override {
    static constexpr StringRef order[] = {"momentum", "dampening",
                                          "weight_decay", "nesterov"};
    return order;
  }
  void takeOwnOptions(NamedArguments &named) override {
    named.take("momentum", momentum);
    named.take("dampening", dampening);
    named.take("nesterov", nesterov);
  }
  std::string checkOwn() const override {
    return momentum < 0 ? "momentum must not be negative"
           : nesterov && (momentum <= 0 || dampening != 0)
               ? "nesterov needs a momentum and no dampening"
               : "";
  }
  SmallVector<OptimizerState> getStates(graph::ParameterOp) const override {
    if (momentum == 0)
      return {};
    return {{"momentum_buffer"}};
  }
  void buildOwnScalars(Parts &parts, Value step) override;
  Value buildUpdate(Parts &parts, UpdatedTensor &tensor) const override;

  double momentum = 0, dampening = 0;
  bool nesterov = false;
  Value freshness;
};

class Adam : public ElementwiseRule {
public:
  explicit Adam(bool decoupled) : decoupled(decoupled) {
    weightDecay = decoupled ? 1e-2 : 0;
  }

private:
  ArrayRef<StringRef> getOwnOrder() const override {
    static constexpr StringRef order[] = {"betas", "eps", "weight_decay",
                                          "amsgrad"};
    return order;
  }
  void takeOwnOptions(NamedArguments &named) override {
    named.takePair("betas", beta1, beta2);
    named.take("eps", epsilon);
    named.take("amsgrad", amsgrad);
  }
  std::string checkOwn() const override {
    return !isShare(beta1) || !isShare(beta2) ? "betas must be in [0, 1)"
           : epsilon < 0                      ? "eps must not be negative"
                                              : "";
  }
  SmallVector<OptimizerState> getStates(graph::ParameterOp) const override {
    SmallVector<OptimizerState> states{{"exp_avg"}, {"exp_avg_sq"}};
    if (amsgrad)
      states.push_back({"max_exp_avg_sq"});
    return states;
  }
  void buildOwnScalars(Parts &parts, Value step) override;
  Value buildUpdate(Parts &parts, UpdatedTensor &tensor) const override;

  bool decoupled, amsgrad = false;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  Value stepSize, correction;
};

class Adagrad : public ElementwiseRule {
public:
  Adagrad() { learningRate = 1e-2; }

private:
  ArrayRef<StringRef> getOwnOrder() const override {
    static constexpr StringRef order[] = {"lr_decay", "weight_decay",
                                          "initial_accumulator_value", "eps"};
    return order;
  }
  void takeOwnOptions(NamedArguments &named) override {
    named.take("lr_decay", rateDecay);
    named.take("initial_accumulator_value", firstSum);
    named.take("eps", epsilon);
  }
  std::string checkOwn() const override {
    return rateDecay < 0  ? "lr_decay must not be negative"
           : firstSum < 0 ? "initial_accumulator_value must not be negative"
           : epsilon < 0  ? "eps must not be negative"
                          : "";
  }
  SmallVector<OptimizerState> getStates(graph::ParameterOp) const override {
    return {{"sum", firstSum}};
  }
  void buildOwnScalars(Parts &parts, Value step) override {
    Value t = parts.convert(step, parts.builder.getF64Type());
    stepSize = parts.div(rate, parts.add(parts.mul(t, rateDecay), 1));
  }
  Value buildUpdate(Parts &parts, UpdatedTensor &tensor) const override;

  double rateDecay = 0, firstSum = 0, epsilon = 1e-10;
  Value stepSize;
};

class RmsProp : public ElementwiseRule {
public:
  RmsProp() { learningRate = 1e-2; }

private:
  ArrayRef<StringRef> getOwnOrder() const override {
    static constexpr StringRef order[] = {"alpha", "eps", "weight_decay",
                                          "momentum", "centered"};
    return order;
  }
  void takeOwnOptions(NamedArguments &named) override {
    named.take("alpha", alpha);
    named.take("eps", epsilon);
    named.take("momentum", momentum);
    named.take("centered", centered);
  }
  std::string checkOwn() const override {
    return alpha < 0      ? "alpha must not be negative"
           : momentum < 0 ? "momentum must not be negative"
           : epsilon < 0  ? "eps must not be negative"
                          : "";
  }
  SmallVector<OptimizerState> getStates(graph::ParameterOp) const override {
    SmallVector<OptimizerState> states{{"square_avg"}};
    if (momentum != 0)
      states.push_back({"momentum_buffer"});
    if (centered)
      states.push_back({"grad_avg"});
    return states;
  }
  Value buildUpdate(Parts &parts, UpdatedTensor &tensor) const override;

  double alpha = 0.99, epsilon = 1e-8, momentum = 0;
  bool centered = false;
};

class Lion : public ElementwiseRule {
public:
  Lion() { learningRate = 1e-4; }

private:
  ArrayRef<StringRef> getOwnOrder() const override {
    static constexpr StringRef order[] = {"betas", "weight_decay"};
    return order;
  }
  void takeOwnOptions(NamedArguments &named) override {
    named.takePair("betas", beta1, beta2);
  }
  std::string checkOwn() const override {
    return isShare(beta1) && isShare(beta2) ? "" : "betas must be in [0, 1)";
  }
  SmallVector<OptimizerState> getStates(graph::ParameterOp) const override {
    return {{"exp_avg"}};
  }
  Value buildUpdate(Parts &parts, UpdatedTensor &tensor) const override;

  double beta1 = 0.9, beta2 = 0.99;
};

} // namespace

// In the first step the momentum is the gradient itself, without dampening.
void Sgd::buildOwnScalars(Parts &parts, Value step) {
  if (momentum == 0 || dampening == 0)
    return;
  Value isFirst = parts.compare(step, Comparison::EQ, parts.splat(step, 0));
  freshness = parts.select(isFirst, buildNumber(parts, 1),
                           buildNumber(parts, 1 - dampening));
}

Value Sgd::buildUpdate(Parts &parts, UpdatedTensor &tensor) const {
  Value gradient = addDecay(parts, tensor);
  if (momentum != 0) {
    Value fresh = freshness ? scale(parts, gradient, freshness) : gradient;
    Value &buffer = tensor.states[0];
    buffer = parts.add(parts.mul(buffer, momentum), fresh);
    gradient =
        nesterov ? parts.add(gradient, parts.mul(buffer, momentum)) : buffer;
  }
  return parts.sub(tensor.parameter, scale(parts, gradient, rate));
}

void Adam::buildOwnScalars(Parts &parts, Value step) {
  Value t = countSteps(parts, step);
  stepSize = parts.div(rate, buildShare(parts, beta1, t));
  correction = parts.apply<graph::SqrtOp>(buildShare(parts, beta2, t));
}

Value Adam::buildUpdate(Parts &parts, UpdatedTensor &tensor) const {
  Value parameter = decoupled ? applyDecay(parts, tensor) : tensor.parameter;
  Value gradient = decoupled ? tensor.gradient : addDecay(parts, tensor);
  Value &mean = tensor.states[0], &square = tensor.states[1];
  mean = parts.add(mean, parts.mul(parts.sub(gradient, mean), 1 - beta1));
  square = parts.add(parts.mul(square, beta2),
                     parts.mul(parts.mul(gradient, gradient), 1 - beta2));
  Value second = square;
  if (amsgrad)
    second = tensor.states[2] =
        parts.apply<graph::MaxOp>(tensor.states[2], square);
  Value root = parts.div(parts.apply<graph::SqrtOp>(second),
                         parts.spread(correction, second));
  return parts.sub(
      parameter,
      scale(parts, parts.div(mean, parts.add(root, epsilon)), stepSize));
}

Value Adagrad::buildUpdate(Parts &parts, UpdatedTensor &tensor) const {
  Value gradient = addDecay(parts, tensor);
  Value &sum = tensor.states[0];
  sum = parts.add(sum, parts.mul(gradient, gradient));
  Value root = parts.add(parts.apply<graph::SqrtOp>(sum), epsilon);
  return parts.sub(tensor.parameter,
                   scale(parts, parts.div(gradient, root), stepSize));
}

Value RmsProp::buildUpdate(Parts &parts, UpdatedTensor &tensor) const {
  Value gradient = addDecay(parts, tensor);
  MutableArrayRef<Value> states = tensor.states;
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
  return parts.sub(tensor.parameter, scale(parts, scaled, rate));
}

// The step is the sign of a mean of gradient and momentum.
Value Lion::buildUpdate(Parts &parts, UpdatedTensor &tensor) const {
  Value gradient = tensor.gradient, &momentum = tensor.states[0];
  Value mean =
      parts.add(parts.mul(momentum, beta1), parts.mul(gradient, 1 - beta1));
  Value zero = parts.splat(mean, 0), one = parts.splat(mean, 1);
  Value sign = parts.sub(
      parts.select(parts.compare(mean, Comparison::GT, zero), one, zero),
      parts.select(parts.compare(mean, Comparison::LT, zero), one, zero));
  momentum =
      parts.add(parts.mul(momentum, beta2), parts.mul(gradient, 1 - beta2));
  return parts.sub(applyDecay(parts, tensor), scale(parts, sign, rate));
}

ArrayRef<StringRef> UpdateRule::getNames() {
  static constexpr StringRef names[] = {"sgd",     "adam",    "adamw",
                                        "adagrad", "rmsprop", "adafactor",
                                        "lamb",    "lion",    "muon"};
  return names;
}

std::unique_ptr<UpdateRule> UpdateRule::create(StringRef name) {
  if (name == "sgd")
    return std::make_unique<Sgd>();
  if (name == "adam" || name == "adamw")
    return std::make_unique<Adam>(/*decoupled=*/name == "adamw");
  if (name == "adagrad")
    return std::make_unique<Adagrad>();
  if (name == "rmsprop")
    return std::make_unique<RmsProp>();
  if (name == "adafactor")
    return createAdafactor();
  if (name == "lamb")
    return createLamb();
  if (name == "muon")
    return createMuon();
  if (name == "lion")
    return std::make_unique<Lion>();
  return nullptr;
}
