// Adafactor: second moments stored by row and column (Shazeer and Stern,
// Adafactor: Adaptive Learning Rates with Sublinear Memory Cost, 2018), like
// PyTorch 2.13.

#include "compiler/training/Clip.h"
#include "compiler/training/StoredView.h"
#include "compiler/training/UpdateRule.h"

#include <cmath>

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::getShape;
using graph::Parts;

namespace {

class Adafactor : public UpdateRule {
public:
  Adafactor() { learningRate = 1e-2; }

private:
  ArrayRef<StringRef> getOwnOrder() const override {
    static constexpr StringRef order[] = {"beta2_decay", "eps", "d",
                                          "weight_decay"};
    return order;
  }
  void takeOwnOptions(NamedArguments &named) override {
    named.take("beta2_decay", decayOfBeta2);
    named.takeTuple("eps", epsilons, "two numbers, as in (None,1e-3)");
    named.take("d", threshold);
  }
  std::string checkOwn() const override {
    return decayOfBeta2 > 0 ? "beta2_decay must not be positive"
           : epsilons[0] < 0 || epsilons[1] < 0 ? "eps must not be negative"
           : threshold < 1                      ? "d must be at least 1"
                                                : "";
  }
  SmallVector<OptimizerState>
  getStates(graph::ParameterOp stored) const override;
  void buildOwnScalars(Parts &parts, Value step) override;
  LogicalResult buildOwnUpdates(OpBuilder &builder,
                                MutableArrayRef<UpdatedTensor> views,
                                MutableArrayRef<Value> states) const override;
  FailureOr<SmallVector<Value>>
  buildFactored(OpBuilder &builder, MutableArrayRef<UpdatedTensor> views,
                MutableArrayRef<Value> states) const;
  Value moveTowards(Parts &parts, Value mean, Value value) const;
  double getEpsilon(Value parameter) const;

  double decayOfBeta2 = -0.8, threshold = 1;
  double epsilons[2] = {std::nan(""), 1e-3}; // NaN: that of the element type
  Value newness, largestStep; // 1 - beta2, min(rate, 1 / sqrt(t))
};

} // namespace

static SmallVector<int64_t> getStoredShape(graph::ParameterOp stored) {
  return SmallVector<int64_t>(
      cast<RankedTensorType>(stored.getType()).getShape());
}

// The states have PyTorch's shapes.
SmallVector<OptimizerState>
Adafactor::getStates(graph::ParameterOp stored) const {
  SmallVector<int64_t> rows = getStoredShape(stored), columns = rows;
  if (rows.size() < 2)
    return {{"variance"}};
  rows.end()[-1] = 1;
  columns.end()[-2] = 1;
  return {{"row_var", 0, rows}, {"col_var", 0, columns}};
}

void Adafactor::buildOwnScalars(Parts &parts, Value step) {
  Value t = countSteps(parts, step);
  newness = parts.apply<graph::PowOp>(t, buildNumber(parts, decayOfBeta2));
  largestStep = parts.apply<graph::MinOp>(
      rate, parts.div(buildNumber(parts, 1), parts.apply<graph::SqrtOp>(t)));
}

/// Epsilon of the element type, like torch.finfo: 2^-23 for f32.
double Adafactor::getEpsilon(Value parameter) const {
  if (!std::isnan(epsilons[0]))
    return epsilons[0];
  auto type = cast<FloatType>(graph::getGlobalType(parameter).getElementType());
  return std::ldexp(1, 1 - static_cast<int>(llvm::APFloat::semanticsPrecision(
                               type.getFloatSemantics())));
}

Value Adafactor::moveTowards(Parts &parts, Value mean, Value value) const {
  return parts.add(mean, scale(parts, parts.sub(value, mean), newness));
}

/// Estimates the second moments of all views: the outer product of the moments
/// of the rows, divided by their mean, and those of the columns.
FailureOr<SmallVector<Value>>
Adafactor::buildFactored(OpBuilder &builder,
                         MutableArrayRef<UpdatedTensor> views,
                         MutableArrayRef<Value> states) const {
  SmallVector<int64_t> shape = getStoredShape(views.front().stored);
  int64_t rank = shape.size();
  Parts parts(builder, views.front().location);
  std::vector<StoredView> places;
  for (UpdatedTensor &tensor : views) {
    FailureOr<StoredView> place = StoredView::get(tensor);
    if (failed(place))
      return failure();
    places.push_back(*place);
  }
  // Builds the moments over one of the last two dims, which the result lacks.
  auto build = [&](int64_t dim, Value &state) {
    auto kept = llvm::to_vector(llvm::seq<int64_t>(0, rank));
    kept.erase(kept.begin() + dim);
    Value sum;
    for (auto [tensor, place] : llvm::zip_equal(views, places)) {
      Value gradient = place.refine(parts, tensor.gradient);
      Value part = parts.mul(gradient, gradient);
      if (SmallVector<int64_t> dims = place.getDims(dim); !dims.empty())
        part = parts.sum(part, dims);
      part = place.place(parts, part, kept);
      sum = sum ? parts.add(sum, part) : part;
    }
    Value mean = parts.mul(sum, 1.0 / static_cast<double>(shape[dim]));
    auto whole = llvm::to_vector(getShape(state));
    Value next = moveTowards(parts,
                             graph::ReshapeOp::create(builder, parts.location,
                                                      state, getShape(mean)),
                             mean);
    state = graph::ReshapeOp::create(builder, parts.location, next, whole);
    return std::pair(next, kept);
  };
  auto [rows, rowDims] = build(rank - 1, states[0]);
  auto [columns, columnDims] = build(rank - 2, states[1]);
  Value mean = parts.mul(parts.sum(rows, {rank - 2}),
                         1.0 / static_cast<double>(shape[rank - 2]));
  mean = parts.apply<graph::MaxOp>(
      mean, parts.splat(mean, getEpsilon(views.front().parameter)));
  rows = parts.div(rows, parts.broadcast(mean, getShape(rows), {rank - 2}));

  SmallVector<Value> moments;
  for (auto [tensor, place] : llvm::zip_equal(views, places)) {
    auto spread = [&](Value value, ArrayRef<int64_t> dims, int64_t missing) {
      return place.restore(
          parts, parts.broadcast(place.take(parts, value, dims),
                                 place.getShape(), place.getDims(missing)));
    };
    moments.push_back(parts.mul(spread(rows, rowDims, rank - 1),
                                spread(columns, columnDims, rank - 2)));
  }
  return moments;
}

LogicalResult Adafactor::buildOwnUpdates(OpBuilder &builder,
                                         MutableArrayRef<UpdatedTensor> views,
                                         MutableArrayRef<Value> states) const {
  int64_t elements = graph::numElements(getStoredShape(views.front().stored));
  if (elements == 0)
    return success();
  Parts parts(builder, views.front().location);
  SmallVector<Value> moments;
  if (states.empty()) {
    for (UpdatedTensor &tensor : views) {
      Value &moment = tensor.states[0];
      moment = moveTowards(parts, moment,
                           parts.mul(tensor.gradient, tensor.gradient));
      moments.push_back(moment);
    }
  } else {
    auto factored = buildFactored(builder, views, states);
    if (failed(factored))
      return failure();
    moments = *factored;
  }

  // The root mean square of the stored tensor, an f64 scalar.
  auto getSize = [&](ArrayRef<Value> values) {
    return parts.mul(toDouble(parts, buildNorm(parts, Clip::Norm::Two, values)),
                     1 / std::sqrt(static_cast<double>(elements)));
  };
  SmallVector<Value> parameters, steps;
  for (auto [tensor, moment] : llvm::zip_equal(views, moments)) {
    double epsilon = getEpsilon(tensor.parameter);
    Value bounded = parts.apply<graph::MaxOp>(
        moment, parts.splat(moment, epsilon * epsilon));
    steps.push_back(
        parts.mul(parts.apply<graph::RsqrtOp>(bounded), tensor.gradient));
    parameters.push_back(tensor.parameter);
  }
  Value length = parts.apply<graph::MaxOp>(getSize(parameters),
                                           buildNumber(parts, epsilons[1]));
  Value excess = parts.apply<graph::MaxOp>(
      parts.mul(getSize(steps), 1 / threshold), buildNumber(parts, 1));
  Value size = parts.div(parts.mul(length, largestStep), excess);
  for (auto [tensor, step] : llvm::zip_equal(views, steps))
    tensor.parameter =
        parts.sub(applyDecay(parts, tensor), scale(parts, step, size));
  return success();
}

std::unique_ptr<UpdateRule> polyrank::training::createAdafactor() {
  return std::make_unique<Adafactor>();
}
