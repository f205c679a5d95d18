// Muon: orthogonalises the momentum of a matrix (Jordan et al., Muon: An
// optimizer for hidden layers in neural networks, 2024), like PyTorch 2.13.
// Other parameters use AdamW.

#include "compiler/training/Clip.h"
#include "compiler/training/StoredView.h"
#include "compiler/training/UpdateRule.h"

#include <cmath>

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::Parts;

namespace {

class Muon : public UpdateRule {
public:
  Muon() : others(UpdateRule::create("adamw")) { weightDecay = 0.1; }

private:
  ArrayRef<StringRef> getOwnOrder() const override {
    static constexpr StringRef order[] = {
        "weight_decay", "momentum", "nesterov",    "ns_coefficients",
        "eps",          "ns_steps", "adjust_lr_fn"};
    return order;
  }
  void takeOwnOptions(NamedArguments &named) override;
  std::string checkOwn() const override;
  std::pair<StringRef, ArrayRef<std::string>> getPatterns() const override {
    return {"adamw", patterns};
  }
  SmallVector<OptimizerState>
  getStates(graph::ParameterOp stored) const override {
    if (isOrthogonalised(stored))
      return {{"momentum_buffer"}};
    return others->getStates(stored);
  }
  StringRef getNameFor(graph::ParameterOp stored) const override {
    return isOrthogonalised(stored) ? "muon" : "adamw";
  }
  void buildOwnScalars(Parts &parts, Value step) override;
  LogicalResult buildOwnUpdates(OpBuilder &builder,
                                MutableArrayRef<UpdatedTensor> views,
                                MutableArrayRef<Value> states) const override;

  bool isOrthogonalised(graph::ParameterOp stored) const;
  Value buildMomentum(Parts &parts, UpdatedTensor &tensor) const;
  Value orthogonalise(Parts &parts, Value matrix) const;
  /// The factor on the learning rate for a matrix of these dims.
  double getRatio(ArrayRef<int64_t> dims) const;

  double momentum = 0.95, epsilon = 1e-7;
  bool nesterov = true;
  double coefficients[3] = {3.4445, -4.7750, 2.0315};
  int64_t steps = 5;
  std::string adjustment = "original";
  /// The rule of parameters that are no matrices, or that `patterns` name.
  std::unique_ptr<UpdateRule> others;
  SmallVector<std::string> patterns;
};

} // namespace

void Muon::takeOwnOptions(NamedArguments &named) {
  named.take("momentum", momentum);
  named.take("nesterov", nesterov);
  named.takeTuple("ns_coefficients", coefficients,
                  "three numbers, as in (3.4445,-4.775,2.0315)");
  named.take("eps", epsilon);
  named.take("ns_steps", steps);
  named.take("adjust_lr_fn", adjustment);
  named.take("adamw", patterns);
  named.setPrefix("adamw_");
  others->takeRates(named);
  named.setPrefix("");
}

std::string Muon::checkOwn() const {
  if (std::string wrong = others->check(); !wrong.empty())
    return "adamw_" + wrong;
  return momentum < 0 ? "momentum must not be negative"
         : learningRate == 0 && others->learningRate != 0
             ? "adamw_lr changes in proportion to lr, with a schedule, a group "
               "or --lr, and to 0 nothing is in proportion; give lr a rate, or "
               "adamw_lr=0 too (--freeze keeps parameters as they are)"
         : steps < 0 || steps >= 100 ? "ns_steps must be in [0, 100)"
         : adjustment != "original" && adjustment != "match_rms_adamw"
             ? "adjust_lr_fn is original or match_rms_adamw"
             : "";
}

bool Muon::isOrthogonalised(graph::ParameterOp stored) const {
  return cast<RankedTensorType>(stored.getType()).getRank() == 2 &&
         !matchesGlobs(patterns, training::getNames(stored));
}

// A learning-rate schedule scales both rates; `checkOwn` has refused lr = 0
// unless the other rate is 0 too.
void Muon::buildOwnScalars(Parts &parts, Value step) {
  Value otherRate = others->learningRate == learningRate
                        ? rate
                        : parts.mul(rate, others->learningRate / learningRate);
  others->buildScalars(parts, step, otherRate);
}

/// Like PyTorch, moves both by `lerp`.
Value Muon::buildMomentum(Parts &parts, UpdatedTensor &tensor) const {
  Value gradient = tensor.gradient, &buffer = tensor.states[0];
  buffer =
      parts.add(buffer, parts.mul(parts.sub(gradient, buffer), 1 - momentum));
  if (!nesterov)
    return buffer;
  return parts.add(gradient, parts.mul(parts.sub(buffer, gradient), momentum));
}

/// For X = U S V^T, returns about U V^T: an odd polynomial of X, applied
/// several times, moves its singular values towards 1. PyTorch computes it in
/// bfloat16.
///   A = X X^T, X' = a X + (b A + c A A) X
/// For a tall X the smaller A = X^T X multiplies from the right instead, which
/// gives the same.
Value Muon::orthogonalise(Parts &parts, Value matrix) const {
  Type type = graph::getGlobalType(matrix).getElementType();
  Value norm = buildNorm(parts, Clip::Norm::Two, matrix);
  Type precise = graph::getGlobalType(norm).getElementType();
  Value x = type == precise ? matrix : parts.convert(matrix, precise);
  norm = parts.apply<graph::MaxOp>(norm, parts.splat(norm, epsilon));
  x = parts.div(x, parts.spread(norm, x));
  bool isTall = graph::getShape(x)[0] > graph::getShape(x)[1];
  int64_t longer = isTall ? 0 : 1;
  auto [a, b, c] = coefficients;
  for (int64_t i = 0; i < steps; ++i) {
    Value gram = parts.matmul(x, x, {}, {}, {longer}, {longer});
    Value square = parts.matmul(gram, gram, {}, {}, {1}, {0});
    Value factor = parts.add(parts.mul(gram, b), parts.mul(square, c));
    Value product = isTall ? parts.matmul(x, factor, {}, {}, {1}, {0})
                           : parts.matmul(factor, x, {}, {}, {1}, {0});
    x = parts.add(parts.mul(x, a), product);
  }
  return type == precise ? x : parts.convert(x, type);
}

double Muon::getRatio(ArrayRef<int64_t> dims) const {
  double rows = dims[0], columns = dims[1];
  return adjustment == "original" ? std::sqrt(std::max(1.0, rows / columns))
                                  : 0.2 * std::sqrt(std::max(rows, columns));
}

LogicalResult Muon::buildOwnUpdates(OpBuilder &builder,
                                    MutableArrayRef<UpdatedTensor> views,
                                    MutableArrayRef<Value> states) const {
  graph::ParameterOp stored = views.front().stored;
  if (!isOrthogonalised(stored))
    return others->buildUpdates(builder, views, states);
  ArrayRef<int64_t> dims = cast<RankedTensorType>(stored.getType()).getShape();
  if (graph::numElements(dims) == 0)
    return success();
  // Assembles the stored matrix from its views.
  Parts parts(builder, views.front().location);
  std::vector<StoredView> places;
  Value matrix;
  for (UpdatedTensor &tensor : views) {
    FailureOr<StoredView> place = StoredView::get(tensor);
    if (failed(place))
      return failure();
    places.push_back(*place);
    Value part = place->place(
        parts, place->refine(parts, buildMomentum(parts, tensor)), {0, 1});
    matrix = matrix ? parts.add(matrix, part) : part;
  }
  matrix = orthogonalise(parts, matrix);
  Value size = parts.mul(rate, getRatio(dims));
  for (auto [tensor, place] : llvm::zip_equal(views, places)) {
    Value part = place.restore(parts, place.take(parts, matrix, {0, 1}));
    tensor.parameter =
        parts.sub(applyDecay(parts, tensor), scale(parts, part, size));
  }
  return success();
}

std::unique_ptr<UpdateRule> polyrank::training::createMuon() {
  return std::make_unique<Muon>();
}
