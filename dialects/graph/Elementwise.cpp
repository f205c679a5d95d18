// Elementwise ops: the parts that Elementwise.td does not define.

#include "dialects/graph/Graph.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::graph;

int64_t polyrank::graph::power(int64_t x, int64_t y) {
  if (y < 0) // 1 / x^-y
    return x == 1 ? 1 : x == -1 ? (y % 2 == 0 ? 1 : -1) : 0;
  uint64_t result = 1, square = static_cast<uint64_t>(x); // wraps around
  for (; y > 0; y >>= 1, square *= square)
    if (y & 1)
      result *= square;
  return static_cast<int64_t>(result);
}

// Folds of ops that return one operand unchanged: products and quotients with
// one, as exporters write for equal sample weights, and conjunctions with a
// mask that hides nothing.

/// Returns `x` if it has the type of the result and the other operand is
/// `neutral` everywhere.
static OpFoldResult foldNeutral(Value x, Value other, double neutral,
                                Type type) {
  return x.getType() == type && getSplat(other) == neutral ? x : Value();
}

/// The same for either side.
static OpFoldResult foldNeutral(Operation *op, double neutral) {
  Value lhs = op->getOperand(0), rhs = op->getOperand(1);
  Type type = op->getResult(0).getType();
  if (OpFoldResult kept = foldNeutral(lhs, rhs, neutral, type))
    return kept;
  return foldNeutral(rhs, lhs, neutral, type);
}

OpFoldResult MulOp::fold(FoldAdaptor) { return foldNeutral(*this, 1); }

OpFoldResult DivOp::fold(FoldAdaptor) {
  return foldNeutral(getLhs(), getRhs(), 1, getType());
}

OpFoldResult AndOp::fold(FoldAdaptor) { return foldNeutral(*this, 1); }

OpFoldResult OrOp::fold(FoldAdaptor) { return foldNeutral(*this, 0); }

// Compare

void CompareOp::build(OpBuilder &builder, OperationState &state, Value lhs,
                      Value rhs, Comparison comparison) {
  auto type = cast<RankedTensorType>(lhs.getType());
  build(builder, state, type.clone(builder.getI1Type()), lhs, rhs, comparison);
}

template <typename Number>
static bool holds(Comparison comparison, Number x, Number y) {
  switch (comparison) {
  case Comparison::EQ:
    return x == y;
  case Comparison::NE:
    return x != y;
  case Comparison::LT:
    return x < y;
  case Comparison::LE:
    return x <= y;
  case Comparison::GT:
    return x > y;
  case Comparison::GE:
    return x >= y;
  }
  llvm_unreachable("covered switch");
}

LogicalResult CompareOp::evaluate(ArrayRef<Tensor> operands,
                                  MutableArrayRef<Tensor> results) {
  const Tensor &lhs = operands[0], &rhs = operands[1];
  Comparison comparison = getComparison();
  for (int64_t i = 0, n = lhs.size(); i < n; ++i)
    results[0].integers[i] =
        lhs.isFloat() ? holds(comparison, lhs.floats[i], rhs.floats[i])
                      : holds(comparison, lhs.integers[i], rhs.integers[i]);
  return success();
}

Value CompareOp::buildScalar(ScalarBuilder &builder, ArrayRef<Value> operands) {
  return compare(getComparison(), Scalar(builder, operands[0]),
                 Scalar(builder, operands[1]))
      .get();
}

// Select

LogicalResult SelectOp::evaluate(ArrayRef<Tensor> operands,
                                 MutableArrayRef<Tensor> results) {
  for (int64_t i = 0, n = results[0].size(); i < n; ++i)
    results[0].copy(i, operands[0].integers[i] ? operands[1] : operands[2], i);
  return success();
}

Value SelectOp::buildScalar(ScalarBuilder &builder, ArrayRef<Value> operands) {
  return select(Scalar(builder, operands[0]), Scalar(builder, operands[1]),
                Scalar(builder, operands[2]))
      .get();
}

// Convert

void ConvertOp::build(OpBuilder &builder, OperationState &state, Value input,
                      Type elementType, bool parts) {
  build(builder, state,
        cast<RankedTensorType>(input.getType()).clone(elementType), input,
        parts);
}

LogicalResult ConvertOp::evaluate(ArrayRef<Tensor> operands,
                                  MutableArrayRef<Tensor> results) {
  const Tensor &input = operands[0];
  Tensor &result = results[0];
  Type type = result.elementType;
  for (int64_t i = 0, n = input.size(); i < n; ++i) {
    if (type.isInteger(1)) {
      result.integers[i] = input.at(i) != 0;
    } else if (result.isFloat()) {
      result.floats[i] = input.at(i);
    } else if (!input.isFloat()) {
      APInt wide(64, input.integers[i]);
      result.integers[i] =
          wide.trunc(type.getIntOrFloatBitWidth()).getSExtValue();
    } else {
      result.integers[i] = toInteger(type, input.floats[i]);
    }
  }
  return success();
}

Value ConvertOp::buildScalar(ScalarBuilder &builder, ArrayRef<Value> operands) {
  return convert(Scalar(builder, operands[0]), getType().getElementType())
      .get();
}

// Gradients: d result / d operand times the result's gradient, per operand

using Gradients = FailureOr<SmallVector<Value>>;

namespace {
/// Builds elementwise expressions of one shape.
struct Expression {
  OpBuilder &builder;
  Location location;

  template <typename Op>
  Value unary(Value x) {
    return Op::create(builder, location, x);
  }
  template <typename Op>
  Value binary(Value x, Value y) {
    return Op::create(builder, location, x, y);
  }
  Value mul(Value x, Value y) { return binary<MulOp>(x, y); }
  Value neg(Value x) { return unary<NegOp>(x); }
  Value constant(Value like, double value) {
    return splat(builder, location, like.getType(), value);
  }
  Value scale(Value x, double factor) { return mul(x, constant(x, factor)); }
  Value shifted(Value x, double by) {
    return binary<AddOp>(x, constant(x, by));
  }
  /// 1 - x^2, factored so that it keeps its digits near 1.
  Value belowOne(Value x) {
    return mul(binary<SubOp>(constant(x, 1), x), shifted(x, 1));
  }
  /// `x` where `a` compares with `b`, else 0.
  Value where(Value a, Comparison comparison, Value b, Value x) {
    Value condition = CompareOp::create(builder, location, a, b, comparison);
    return SelectOp::create(builder, location, condition, x, constant(x, 0));
  }
};
} // namespace

#define UNARY_GRADIENT(Op, expression)                                         \
  Gradients Op::buildGradient(OpBuilder &builder, ArrayRef<Value> gradients,   \
                              ArrayRef<bool>) {                                \
    [[maybe_unused]] Expression e{builder, getLoc()};                          \
    [[maybe_unused]] Value dy = gradients[0], x = getInput(), y = getResult(); \
    return SmallVector<Value>{expression};                                     \
  }

UNARY_GRADIENT(NegOp, e.neg(dy))
UNARY_GRADIENT(ExpOp, e.mul(dy, y))
UNARY_GRADIENT(LogOp, e.binary<DivOp>(dy, x))
UNARY_GRADIENT(SqrtOp, e.binary<DivOp>(e.scale(dy, 0.5), y))
UNARY_GRADIENT(RsqrtOp, e.mul(e.scale(dy, -0.5), e.mul(y, e.mul(y, y))))
UNARY_GRADIENT(TanhOp,
               e.mul(dy, e.binary<SubOp>(e.constant(y, 1), e.mul(y, y))))
UNARY_GRADIENT(ErfOp, e.mul(e.scale(dy, 2 / std::sqrt(M_PI)),
                            e.unary<ExpOp>(e.neg(e.mul(x, x)))))
UNARY_GRADIENT(SigmoidOp,
               e.mul(dy, e.mul(y, e.binary<SubOp>(e.constant(y, 1), y))))
UNARY_GRADIENT(ReluOp, e.where(x, Comparison::GT, e.constant(x, 0), dy))
UNARY_GRADIENT(AbsOp,
               e.binary<SubOp>(e.where(x, Comparison::GT, e.constant(x, 0), dy),
                               e.where(x, Comparison::LT, e.constant(x, 0),
                                       dy)))
UNARY_GRADIENT(SinOp, e.mul(dy, e.unary<CosOp>(x)))
UNARY_GRADIENT(CosOp, e.neg(e.mul(dy, e.unary<SinOp>(x))))
UNARY_GRADIENT(AtanOp, e.binary<DivOp>(dy, e.shifted(e.mul(x, x), 1)))
UNARY_GRADIENT(AsinOp, e.mul(dy, e.unary<RsqrtOp>(e.belowOne(x))))
UNARY_GRADIENT(AcosOp, e.neg(e.mul(dy, e.unary<RsqrtOp>(e.belowOne(x)))))
UNARY_GRADIENT(AsinhOp, e.mul(dy, e.unary<RsqrtOp>(e.shifted(e.mul(x, x), 1))))
UNARY_GRADIENT(AcoshOp, e.mul(dy, e.unary<RsqrtOp>(e.mul(e.shifted(x, -1),
                                                         e.shifted(x, 1)))))
UNARY_GRADIENT(AtanhOp, e.binary<DivOp>(dy, e.belowOne(x)))
UNARY_GRADIENT(FloorOp, e.constant(dy, 0))
#undef UNARY_GRADIENT

#define BINARY_GRADIENT(Op, left, right)                                       \
  Gradients Op::buildGradient(OpBuilder &builder, ArrayRef<Value> gradients,   \
                              ArrayRef<bool> needed) {                         \
    [[maybe_unused]] Expression e{builder, getLoc()};                          \
    [[maybe_unused]] Value dz = gradients[0], x = getLhs(), y = getRhs(),      \
                           z = getResult();                                    \
    return SmallVector<Value>{needed[0] ? (left) : Value(),                    \
                              needed[1] ? (right) : Value()};                  \
  }

BINARY_GRADIENT(AddOp, dz, dz)
BINARY_GRADIENT(SubOp, dz, e.neg(dz))
BINARY_GRADIENT(MulOp, e.mul(dz, y), e.mul(dz, x))
BINARY_GRADIENT(DivOp, e.binary<DivOp>(dz, y),
                e.neg(e.binary<DivOp>(e.mul(dz, z), y)))
// Where x and y are equal each takes half, as in PyTorch.
BINARY_GRADIENT(
    MaxOp,
    e.binary<AddOp>(e.where(x, Comparison::GT, y, dz),
                    e.where(x, Comparison::EQ, y, e.scale(dz, 0.5))),
    e.binary<AddOp>(e.where(x, Comparison::LT, y, dz),
                    e.where(x, Comparison::EQ, y, e.scale(dz, 0.5))))
BINARY_GRADIENT(
    MinOp,
    e.binary<AddOp>(e.where(x, Comparison::LT, y, dz),
                    e.where(x, Comparison::EQ, y, e.scale(dz, 0.5))),
    e.binary<AddOp>(e.where(x, Comparison::GT, y, dz),
                    e.where(x, Comparison::EQ, y, e.scale(dz, 0.5))))
// d x^y / dx = y x^(y-1), and 0 where y is 0; d x^y / dy = x^y log x, and 0
// where x^y is 0.
BINARY_GRADIENT(
    PowOp,
    e.where(y, Comparison::NE, e.constant(y, 0),
            e.mul(dz, e.mul(y, e.binary<PowOp>(
                                   x, e.binary<SubOp>(y, e.constant(y, 1)))))),
    e.where(z, Comparison::NE, e.constant(z, 0),
            e.mul(dz, e.mul(z, e.unary<LogOp>(x)))))
#undef BINARY_GRADIENT

Gradients SelectOp::buildGradient(OpBuilder &builder, ArrayRef<Value> gradients,
                                  ArrayRef<bool> needed) {
  Value dz = gradients[0], zero = splat(builder, getLoc(), dz.getType(), 0);
  SmallVector<Value> result(3);
  if (needed[1])
    result[1] = SelectOp::create(builder, getLoc(), getCondition(), dz, zero);
  if (needed[2])
    result[2] = SelectOp::create(builder, getLoc(), getCondition(), zero, dz);
  return result;
}

Gradients ConvertOp::buildGradient(OpBuilder &builder,
                                   ArrayRef<Value> gradients, ArrayRef<bool>) {
  Type from = cast<RankedTensorType>(getInput().getType()).getElementType();
  if (!isa<FloatType>(from))
    return SmallVector<Value>{Value()};
  return SmallVector<Value>{
      ConvertOp::create(builder, getLoc(), gradients[0], from)};
}
