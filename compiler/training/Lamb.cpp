// LAMB: Adam's update, scaled to a multiple of the norm of the tensor that it
// updates (You et al., Large Batch Optimization for Deep Learning: Training
// BERT in 76 minutes, 2020, algorithm 2).

#include "compiler/training/Clip.h"
#include "compiler/training/UpdateRule.h"

#include <limits>

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::Comparison;
using graph::Parts;

namespace {

/// The options are those of NVIDIA's FusedLAMB and of DeepSpeed's.
class Lamb : public UpdateRule {
public:
  Lamb() { weightDecay = 1e-2; }

private:
  ArrayRef<StringRef> getOwnOrder() const override {
    static constexpr StringRef order[] = {"betas", "eps", "weight_decay"};
    return order;
  }
  void takeOwnOptions(NamedArguments &named) override {
    named.takePair("betas", beta1, beta2);
    named.take("eps", epsilon);
    named.take("bias_correction", corrects);
    named.take("grad_averaging", averages);
    named.take("use_nvlamb", adaptsAll);
    named.take("min_coeff", least);
    named.take("max_coeff", most);
    clips = named.drop("max_grad_norm");
  }
  std::string checkOwn() const override {
    return !isShare(beta1) || !isShare(beta2) ? "betas must be in [0, 1)"
           : epsilon < 0                      ? "eps must not be negative"
           : least < 0 || least > most ? "min_coeff must be in [0, max_coeff]"
           : clips ? "max_grad_norm is --clip-norm, which all optimizers have"
                   : "";
  }
  SmallVector<OptimizerState> getStates(graph::ParameterOp) const override {
    return {{"exp_avg"}, {"exp_avg_sq"}};
  }
  void buildOwnScalars(Parts &parts, Value step) override;
  LogicalResult buildOwnUpdates(OpBuilder &builder,
                                MutableArrayRef<UpdatedTensor> views,
                                MutableArrayRef<Value> states) const override;
  Value buildDirection(Parts &parts, UpdatedTensor &tensor) const;
  Value buildTrust(Parts &parts, ArrayRef<Value> parameters,
                   ArrayRef<Value> directions) const;

  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6;
  bool corrects = true, averages = true, adaptsAll = true, clips = false;
  double least = 0, most = std::numeric_limits<double>::infinity();
  Value meanScale, correction; // 1 / (1 - beta1^t), sqrt(1 - beta2^t)
};

} // namespace

void Lamb::buildOwnScalars(Parts &parts, Value step) {
  if (!corrects)
    return;
  Value t = countSteps(parts, step);
  meanScale = parts.div(buildNumber(parts, 1), buildShare(parts, beta1, t));
  correction = parts.apply<graph::SqrtOp>(buildShare(parts, beta2, t));
}

/// Adam's update, with weight decay added.
Value Lamb::buildDirection(Parts &parts, UpdatedTensor &tensor) const {
  Value gradient = tensor.gradient;
  Value &mean = tensor.states[0], &square = tensor.states[1];
  mean = parts.add(parts.mul(mean, beta1),
                   averages ? parts.mul(gradient, 1 - beta1) : gradient);
  square = parts.add(parts.mul(square, beta2),
                     parts.mul(parts.mul(gradient, gradient), 1 - beta2));
  Value root = parts.apply<graph::SqrtOp>(square), first = mean;
  if (corrects) {
    root = parts.div(root, parts.spread(correction, root));
    first = scale(parts, mean, meanScale);
  }
  Value direction = parts.div(first, parts.add(root, epsilon));
  double decay = getDecay(tensor);
  return decay == 0 ? direction
                    : parts.add(direction, parts.mul(tensor.parameter, decay));
}

/// The norm of the stored tensor divided by that of its update, an f64 scalar;
/// 1 if either is zero.
Value Lamb::buildTrust(Parts &parts, ArrayRef<Value> parameters,
                       ArrayRef<Value> directions) const {
  Value length = buildNorm(parts, Clip::Norm::Two, parameters);
  Value step = buildNorm(parts, Clip::Norm::Two, directions);
  Value one = parts.splat(length, 1), zero = parts.splat(length, 0);
  auto isMore = [&](Value norm) {
    return parts.compare(norm, Comparison::GT, zero);
  };
  Value ratio = parts.div(length, parts.select(isMore(step), step, one));
  if (least > 0)
    ratio = parts.apply<graph::MaxOp>(ratio, parts.splat(ratio, least));
  if (most < std::numeric_limits<double>::infinity())
    ratio = parts.apply<graph::MinOp>(ratio, parts.splat(ratio, most));
  ratio = parts.select(isMore(length), ratio, one);
  return toDouble(parts, parts.select(isMore(step), ratio, one));
}

LogicalResult Lamb::buildOwnUpdates(OpBuilder &builder,
                                    MutableArrayRef<UpdatedTensor> views,
                                    MutableArrayRef<Value>) const {
  SmallVector<Value> parameters, directions;
  for (UpdatedTensor &tensor : views) {
    Parts parts(builder, tensor.location);
    parameters.push_back(tensor.parameter);
    directions.push_back(buildDirection(parts, tensor));
  }
  Parts parts(builder, views.front().location);
  Value size = rate;
  if (adaptsAll || getDecay(views.front()) != 0)
    size = parts.mul(rate, buildTrust(parts, parameters, directions));
  for (auto [tensor, direction] : llvm::zip_equal(views, directions)) {
    Parts own(builder, tensor.location);
    tensor.parameter = own.sub(tensor.parameter, scale(own, direction, size));
  }
  return success();
}

std::unique_ptr<UpdateRule> polyrank::training::createLamb() {
  return std::make_unique<Lamb>();
}
