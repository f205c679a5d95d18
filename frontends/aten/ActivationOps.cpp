// Activations.

#include "frontends/aten/Call.h"
#include "frontends/emit/Activations.h"
#include "frontends/emit/Functions.h"

using namespace mlir;

namespace polyrank::frontends::aten {
namespace {

using graph::Comparison;

Imported scalarLike(Call &c, const Imported &x, double value) {
  return c.emit.scalar(x.getElementType(), value);
}

Imported times(Call &c, const Imported &x, double factor) {
  return factor == 1
             ? x
             : c.emit.binaryOver<graph::MulOp>(x, scalarLike(c, x, factor));
}

Imported spread(Call &c, const Imported &x, double value) {
  return c.emit.broadcast(scalarLike(c, x, value), x.getShape(),
                          !x.isConstant());
}

LogicalResult relu(Call &c) {
  return c.give(c.emit.unary<graph::ReluOp>(c.read("self")), c.typeOf("self"));
}

/// Clamps x to [low, high], without a gradient at the bounds.
LogicalResult hold(Call &c, double low, double high) {
  Imported x = c.read("self");
  x = clipped(c.emit, x, scalarLike(c, x, low), /*isLower=*/true,
              /*passes=*/false);
  x = clipped(c.emit, x, scalarLike(c, x, high), /*isLower=*/false,
              /*passes=*/false);
  return c.give(x, c.typeOf("self"));
}

LogicalResult relu6(Call &c) { return hold(c, 0, 6); }
LogicalResult hardtanh(Call &c) {
  return hold(c, c.number("min_val"), c.number("max_val"));
}

/// x where x > 0, else `below(x)`.
LogicalResult rectified(Call &c, function_ref<Imported(const Imported &)> below,
                        double scale = 1) {
  Imported x = c.read("self");
  Imported positive = c.emit.binaryOver<graph::CompareOp>(
      x, scalarLike(c, x, 0), Comparison::GT);
  return c.give(c.emit.select(positive, times(c, x, scale), below(x)),
                c.typeOf("self"));
}

LogicalResult leakyRelu(Call &c) {
  return rectified(c, [&](const Imported &x) {
    return times(c, x, c.number("negative_slope"));
  });
}

LogicalResult elu(Call &c) {
  double scale = c.number("scale"), inner = c.number("input_scale");
  return rectified(
      c,
      [&](const Imported &x) {
        return exponential(c.emit, times(c, x, inner),
                           c.number("alpha") * scale);
      },
      scale);
}

LogicalResult selu(Call &c) {
  constexpr double alpha = 1.6732632423543772848170429916717,
                   scale = 1.0507009873554804934193349852946;
  return rectified(
      c,
      [&](const Imported &x) { return exponential(c.emit, x, alpha * scale); },
      scale);
}

LogicalResult celu(Call &c) {
  double alpha = c.number("alpha");
  return rectified(c, [&](const Imported &x) {
    return exponential(c.emit, x, alpha, alpha);
  });
}

/// There is one slope, or one per channel (dim 1).
LogicalResult prelu(Call &c) {
  Imported weight = c.read("weight");
  Shape shape = c.tensor("self")->getShape();
  if (weight.getRank() == 1 && shape.size() > 1) {
    Shape channel(shape.size(), 1);
    channel[1] = weight.getShape()[0];
    weight = c.emit.reshape(weight, channel);
  }
  auto common = broadcastShapes(shape, weight.getShape());
  if (failed(common) || *common != shape)
    return c.fail("its weight of " + toString(weight.getShape()) +
                  " does not fit " + toString(shape));
  return rectified(c, [&](const Imported &x) {
    return c.emit.binaryOver<graph::MulOp>(x, weight);
  });
}

LogicalResult gelu(Call &c) {
  StringRef form = c.text("approximate");
  if (form != "none" && form != "tanh")
    return c.fail("approximate='" + form + "'");
  return c.give(c.emit.unary<graph::GeluOp>(
                    c.read("self"), form == "tanh" ? graph::GeluForm::Tanh
                                                   : graph::GeluForm::Erf),
                c.typeOf("self"));
}

LogicalResult silu(Call &c) {
  return c.give(c.emit.unary<graph::SiluOp>(c.read("self")), c.typeOf("self"));
}

LogicalResult mish(Call &c) {
  Imported x = c.read("self");
  return c.give(c.emit.binary<graph::MulOp>(
                    x, c.emit.unary<graph::TanhOp>(softplusOf(c.emit, x))),
                c.typeOf("self"));
}

/// log(1 + exp(beta x)) / beta, and x itself where beta x > threshold.
LogicalResult softplus(Call &c) {
  Imported x = c.read("self");
  double beta = c.number("beta");
  Imported scaled = times(c, x, beta);
  Imported soft = times(c, softplusOf(c.emit, scaled), 1 / beta);
  Imported isLarge = c.emit.binaryOver<graph::CompareOp>(
      scaled, scalarLike(c, x, c.number("threshold")), Comparison::GT);
  return c.give(c.emit.select(isLarge, x, soft), c.typeOf("self"));
}

LogicalResult logSigmoid(Call &c) {
  Imported x = c.read("self");
  return c.give(c.emit.unary<graph::NegOp>(
                    softplusOf(c.emit, c.emit.unary<graph::NegOp>(x))),
                c.typeOf("self"));
}

LogicalResult hardsigmoid(Call &c) {
  return c.give(hardSigmoidOf(c.emit, c.read("self"), 1.0 / 6, 0.5),
                c.typeOf("self"));
}

LogicalResult hardswish(Call &c) {
  Imported x = c.read("self");
  return c.give(
      c.emit.binary<graph::MulOp>(x, hardSigmoidOf(c.emit, x, 1.0 / 6, 0.5)),
      c.typeOf("self"));
}

/// x where it is above `threshold`, else `value`.
LogicalResult threshold(Call &c) {
  Imported x = c.read("self");
  Imported above = c.emit.binaryOver<graph::CompareOp>(
      x, scalarLike(c, x, c.number("threshold")), Comparison::GT);
  return c.give(c.emit.select(above, x, spread(c, x, c.number("value"))),
                c.typeOf("self"));
}

/// 0 in [-lambda, lambda], else x or, with `isSoft`, x moved towards 0 by
/// lambda.
template <bool isSoft>
LogicalResult shrink(Call &c) {
  Imported x = c.read("self");
  double lambda = c.number("lambd");
  auto is = [&](Comparison comparison, double value) {
    return c.emit.binaryOver<graph::CompareOp>(x, scalarLike(c, x, value),
                                               comparison);
  };
  auto moved = [&](double by) {
    return isSoft ? c.emit.binaryOver<graph::AddOp>(x, scalarLike(c, x, by))
                  : x;
  };
  return c.give(c.emit.select(is(Comparison::GT, lambda), moved(-lambda),
                              c.emit.select(is(Comparison::LT, -lambda),
                                            moved(lambda), spread(c, x, 0))),
                c.typeOf("self"));
}

/// The first half along `dim` times the sigmoid of the second.
LogicalResult glu(Call &c) {
  Imported x = c.read("self");
  auto dim = c.dim(c.integer("dim"), x.getRank());
  if (failed(dim))
    return failure();
  int64_t size = x.getShape()[*dim];
  if (size % 2 != 0)
    return c.fail("halves of a dim of " + Twine(size));
  return c.give(
      c.emit.binary<graph::MulOp>(c.emit.slice(x, *dim, 0, size / 2),
                                  c.emit.unary<graph::SigmoidOp>(
                                      c.emit.slice(x, *dim, size / 2, size))),
      c.typeOf("self"));
}

template <bool isLog>
LogicalResult softmax(Call &c) {
  auto type = c.dtype(c.typeOf("self"));
  if (failed(type))
    return failure();
  if (!isFloat(*type))
    return c.fail("softmax of " + longNameOf(*type) +
                  "; convert it to float32");
  Imported x = c.as(c["self"], *type);
  auto dim = c.dim(c.integer("dim"), x.getRank());
  if (failed(dim))
    return failure();
  Shape shape = x.getShape();
  if (shape.empty())
    x = c.emit.reshape(x, {1});
  Imported result = isLog ? logSoftmaxOf(c.emit, x, *dim)
                          : c.emit.unary<graph::SoftmaxOp>(x, *dim);
  return c.give(c.emit.reshape(result, shape), *type);
}

const OperatorRow rows[] = {
    {"relu(Tensor self) -> Tensor", relu},
    {"relu_(Tensor(a!) self) -> Tensor(a!)", relu},
    {"relu6(Tensor self) -> Tensor", relu6},
    {"relu6_(Tensor(a!) self) -> Tensor(a!)", relu6},
    {"hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor",
     hardtanh},
    {"hardtanh_(Tensor(a!) self, Scalar min_val=-1, Scalar max_val=1) -> "
     "Tensor(a!)",
     hardtanh},
    {"leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor",
     leakyRelu},
    {"leaky_relu_(Tensor(a!) self, Scalar negative_slope=0.01) -> "
     "Tensor(a!)",
     leakyRelu},
    {"elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar "
     "input_scale=1) -> Tensor",
     elu},
    {"elu_(Tensor(a!) self, Scalar alpha=1, Scalar scale=1, Scalar "
     "input_scale=1) -> Tensor(a!)",
     elu},
    {"selu(Tensor self) -> Tensor", selu},
    {"selu_(Tensor(a!) self) -> Tensor(a!)", selu},
    {"celu(Tensor self, Scalar alpha=1.) -> Tensor", celu},
    {"celu_(Tensor(a!) self, Scalar alpha=1.) -> Tensor(a!)", celu},
    {"prelu(Tensor self, Tensor weight) -> Tensor", prelu},
    {"gelu(Tensor self, *, str approximate=\"none\") -> Tensor", gelu},
    {"gelu_(Tensor(a!) self, *, str approximate=\"none\") -> Tensor(a!)", gelu},
    {"silu(Tensor self) -> Tensor", silu},
    {"silu_(Tensor(a!) self) -> Tensor(a!)", silu},
    {"mish(Tensor self) -> Tensor", mish},
    {"mish_(Tensor(a!) self) -> Tensor(a!)", mish},
    {"softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor",
     softplus},
    {"log_sigmoid(Tensor self) -> Tensor", logSigmoid},
    {"hardsigmoid(Tensor self) -> Tensor", hardsigmoid},
    {"hardsigmoid_(Tensor(a!) self) -> Tensor(a!)", hardsigmoid},
    {"hardswish(Tensor self) -> Tensor", hardswish},
    {"hardswish_(Tensor(a!) self) -> Tensor(a!)", hardswish},
    {"threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor",
     threshold},
    {"threshold_(Tensor(a!) self, Scalar threshold, Scalar value) -> "
     "Tensor(a!)",
     threshold},
    {"hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor", shrink<false>},
    {"softshrink(Tensor self, Scalar lambd=0.5) -> Tensor", shrink<true>},
    {"glu(Tensor self, int dim=-1) -> Tensor", glu},
    {"softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
     softmax<false>},
    {"_softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
     softmax<false>},
    {"log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> "
     "Tensor",
     softmax<true>},
    {"_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
     softmax<true>},
};

} // namespace

ArrayRef<OperatorRow> getActivationRows() { return rows; }

} // namespace polyrank::frontends::aten
