// Imports elementwise ops: arithmetic, comparison, logic. Activations that are
// several ops are in ActivationOps.cpp.

#include <cmath>
#include <limits>

#include "frontends/emit/Functions.h"
#include "frontends/onnx/NodeImporter.h"

using namespace mlir;

namespace polyrank::frontends::onnx {
namespace {

template <typename Op>
LogicalResult unary(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  n.result(0, n.emit.unary<Op>(n.operand(0)));
  return success();
}

/// Folds any number of operands from the left: for Add, and for Sum, Min and
/// Max of many.
template <typename Op>
LogicalResult variadic(NodeImporter &n) {
  if (failed(n.need(std::max<size_t>(n.getNumOperands(), 1))))
    return failure();
  auto operands = n.broadcastOperands();
  if (failed(operands))
    return failure();
  Imported result = operands->front();
  for (const Imported &next : llvm::drop_begin(*operands))
    result = n.emit.binary<Op>(result, next);
  n.result(0, result);
  return success();
}

/// Two operands are a clamp of x to a tensor; otherwise there are any number of
/// operands, and equal ones share the gradient.
template <typename Op, bool isMax>
LogicalResult extremum(NodeImporter &n) {
  if (!n.isOf("aten.clamp") || n.getNumOperands() != 2)
    return variadic<Op>(n);
  if (failed(n.need(2)))
    return failure();
  auto operands = n.broadcastOperands();
  if (failed(operands))
    return failure();
  n.result(0, clipped(n, (*operands)[0], (*operands)[1], isMax));
  return success();
}

LogicalResult mean(NodeImporter &n) {
  if (failed(variadic<graph::AddOp>(n)))
    return failure();
  Imported sum = n.getResults()[0];
  n.result(0, n.emit.binaryOver<graph::DivOp>(
                  sum, n.emit.scalar(sum.getElementType(),
                                     static_cast<double>(n.getNumOperands()))));
  return success();
}

template <graph::Comparison comparison>
LogicalResult compare(NodeImporter &n) {
  if (failed(n.need(2)))
    return failure();
  auto operands = n.broadcastOperands();
  if (failed(operands))
    return failure();
  n.result(0, n.emit.binary<graph::CompareOp>((*operands)[0], (*operands)[1],
                                              comparison));
  return success();
}

LogicalResult reciprocal(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  const Imported &x = n.operand(0);
  Imported one = n.emit.broadcast(n.emit.scalar(x.getElementType(), 1),
                                  x.getShape(), !x.isConstant());
  n.result(0, n.emit.binary<graph::DivOp>(one, x));
  return success();
}

LogicalResult ceil(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  n.result(0, n.emit.unary<graph::NegOp>(n.emit.unary<graph::FloorOp>(
                  n.emit.unary<graph::NegOp>(n.operand(0)))));
  return success();
}

/// The nearest integer; a tie goes to the even one. Like floor, it has no
/// gradient.
LogicalResult round(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  const Imported &x = n.operand(0);
  if (!isa<FloatType>(x.getElementType()))
    return n.fail("Round of integers, which are round; leave it out");
  n.result(0, roundToEven(n.emit, x));
  return success();
}

LogicalResult tan(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  const Imported &x = n.operand(0);
  n.result(0, n.emit.binary<graph::DivOp>(n.emit.unary<graph::SinOp>(x),
                                          n.emit.unary<graph::CosOp>(x)));
  return success();
}

LogicalResult cosh(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  n.result(0, coshOf(n.emit, n.operand(0)));
  return success();
}

/// tanh(x) cosh(x): near 0 a difference of exponentials would lose all digits.
LogicalResult sinh(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  const Imported &x = n.operand(0);
  n.result(0, n.emit.binary<graph::MulOp>(n.emit.unary<graph::TanhOp>(x),
                                          coshOf(n.emit, x)));
  return success();
}

LogicalResult sign(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  n.result(0, signOf(n.emit, n.operand(0)));
  return success();
}

/// Returns true if the root of `x` is a deviation or a norm. A root of a sum of
/// squares that the model computes itself has no finite gradient at 0, in
/// PyTorch either; files without operator names do not distinguish it from a
/// norm.
bool isNorm(NodeImporter &n, const Imported &x) {
  if (!x.value || !isSumOfSquares(x.value))
    return false;
  auto callOf = [](const Node &node) {
    return StringRef(find(node.metadata, "pkg.torch.onnx.fx_node"));
  };
  if (callOf(n.node).empty() || n.isOf("aten.std"))
    return true;
  // The exporter decomposes std into a variance and its root.
  bool isOfVariance = false;
  forEachNode(n.model.graph, [&](const Node &node) {
    isOfVariance |= llvm::is_contained(node.outputs, n.node.inputs[0]) &&
                    callOf(node).contains("=torch.ops.prims.var.");
  });
  return isOfVariance;
}

LogicalResult squareRoot(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  const Imported &x = n.operand(0);
  n.result(0,
           isNorm(n, x) ? rootOf(n.emit, x) : n.emit.unary<graph::SqrtOp>(x));
  return success();
}

/// The result has the type of the base.
LogicalResult power(NodeImporter &n) {
  if (failed(n.need(2)))
    return failure();
  if (const Imported &y = n.operand(1);
      y.isConstant() && y.constant->size() == 1 &&
      std::fabs(y.constant->at(0) - 0.5) < 1e-6 && // cdist adds that to 2
      isNorm(n, n.operand(0)) &&
      isa<FloatType>(n.operand(0).getElementType())) {
    Shape shape = n.operand(0).getShape();
    auto result = broadcastShapes(shape, y.getShape());
    assert(succeeded(result) && "one element goes with any shape");
    n.result(0, n.emit.reshape(rootOf(n.emit, n.operand(0)), *result));
    return success();
  }
  auto operands = n.broadcastOperands();
  if (failed(operands))
    return failure();
  Imported x = (*operands)[0], y = (*operands)[1];
  Type type = x.getElementType();
  if (!isa<FloatType>(type) && isa<IntegerType>(y.getElementType()) &&
      y.isConstant() &&
      llvm::any_of(y.constant.getSlices().integers,
                   [](int64_t each) { return each < 0; }))
    return n.fail("integers to a negative power are not integers; compute them "
                  "of floats (x.float() ** -1)");
  Type computed = isa<FloatType>(type) ? type : y.getElementType();
  n.result(0, n.emit.convert(
                  n.emit.binary<graph::PowOp>(n.emit.convert(x, computed),
                                              n.emit.convert(y, computed)),
                  type));
  return success();
}

/// The remainder with the sign of the divisor (as in Python) or, with fmod = 1,
/// of the dividend (as in C).
LogicalResult mod(NodeImporter &n) {
  if (failed(n.need(2)))
    return failure();
  auto operands = n.broadcastOperands();
  if (failed(operands))
    return failure();
  Imported x = (*operands)[0], y = (*operands)[1];
  if (isa<FloatType>(x.getElementType()))
    return n.fail("Mod of floats; write x - torch.floor(x / y) * y (or with "
                  "torch.trunc, as fmod has it)");
  n.result(0, remainderOf(n.emit, x, y, n.getInt("fmod", 0) != 0));
  return success();
}

LogicalResult logicalXor(NodeImporter &n) {
  return compare<graph::Comparison::NE>(n);
}

LogicalResult isNaN(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  n.result(0, n.emit.binary<graph::CompareOp>(n.operand(0), n.operand(0),
                                              graph::Comparison::NE));
  return success();
}

LogicalResult isInf(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  bool positive = n.getInt("detect_positive", 1) != 0;
  bool negative = n.getInt("detect_negative", 1) != 0;
  Imported x = n.operand(0);
  if (positive && negative)
    x = n.emit.unary<graph::AbsOp>(x);
  else if (negative)
    x = n.emit.unary<graph::NegOp>(x);
  else if (!positive)
    return n.fail("IsInf that detects neither infinity");
  n.result(0, n.emit.binaryOver<graph::CompareOp>(
                  x,
                  n.emit.scalar(x.getElementType(),
                                std::numeric_limits<double>::infinity()),
                  graph::Comparison::EQ));
  return success();
}

LogicalResult where(NodeImporter &n) {
  if (failed(n.need(3)))
    return failure();
  auto operands = n.broadcastOperands();
  if (failed(operands))
    return failure();
  n.result(0, n.emit.select((*operands)[0], (*operands)[1], (*operands)[2]));
  return success();
}

LogicalResult cast(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  auto to = typeOfNumber(n.getInt("to", 0));
  Type type = n.toResultType(to);
  if (!type)
    return n.fail("Cast to " + longNameOf(to));
  n.result(0, n.emit.convert(n.operand(0), type));
  return success();
}

LogicalResult castLike(NodeImporter &n) {
  if (failed(n.need(2)))
    return failure();
  n.result(0, n.emit.convert(n.operand(0), n.operand(1).getElementType()));
  return success();
}

const OpRow rows[] = {
    {"", "Add", 7, variadic<graph::AddOp>},
    {"", "Sub", 7, variadic<graph::SubOp>},
    {"", "Mul", 7, variadic<graph::MulOp>},
    {"", "Div", 7, variadic<graph::DivOp>},
    {"", "Pow", 7, power},
    {"", "Mod", 10, mod},
    {"", "Sum", 6, variadic<graph::AddOp>},
    {"", "Mean", 6, mean},
    {"", "Max", 6, extremum<graph::MaxOp, true>},
    {"", "Min", 6, extremum<graph::MinOp, false>},
    {"", "Neg", 6, unary<graph::NegOp>},
    {"", "Abs", 6, unary<graph::AbsOp>},
    {"", "Exp", 6, unary<graph::ExpOp>},
    {"", "Log", 6, unary<graph::LogOp>},
    {"", "Sqrt", 6, squareRoot},
    {"", "Reciprocal", 6, reciprocal},
    {"", "Erf", 9, unary<graph::ErfOp>},
    {"", "Sin", 7, unary<graph::SinOp>},
    {"", "Cos", 7, unary<graph::CosOp>},
    {"", "Atan", 7, unary<graph::AtanOp>},
    {"", "Asin", 7, unary<graph::AsinOp>},
    {"", "Acos", 7, unary<graph::AcosOp>},
    {"", "Asinh", 9, unary<graph::AsinhOp>},
    {"", "Acosh", 9, unary<graph::AcoshOp>},
    {"", "Atanh", 9, unary<graph::AtanhOp>},
    {"", "Floor", 6, unary<graph::FloorOp>},
    {"", "Ceil", 6, ceil},
    {"", "Round", 11, round},
    {"", "Tan", 7, tan},
    {"", "Sinh", 9, sinh},
    {"", "Cosh", 9, cosh},
    {"", "Sign", 9, sign},
    {"", "Tanh", 6, unary<graph::TanhOp>},
    {"", "Sigmoid", 6, unary<graph::SigmoidOp>},
    {"", "Relu", 6, unary<graph::ReluOp>},
    {"", "Equal", 7, compare<graph::Comparison::EQ>},
    {"", "Less", 7, compare<graph::Comparison::LT>},
    {"", "LessOrEqual", 12, compare<graph::Comparison::LE>},
    {"", "Greater", 7, compare<graph::Comparison::GT>},
    {"", "GreaterOrEqual", 12, compare<graph::Comparison::GE>},
    {"", "And", 7, variadic<graph::AndOp>},
    {"", "Or", 7, variadic<graph::OrOp>},
    {"", "Xor", 7, logicalXor},
    {"", "Not", 1, unary<graph::NotOp>},
    {"", "IsNaN", 9, isNaN},
    {"", "IsInf", 10, isInf},
    {"", "Where", 9, where},
    {"", "Cast", 6, cast},
    {"", "CastLike", 15, castLike},
};

} // namespace

ArrayRef<OpRow> getElementwiseRows() { return rows; }

} // namespace polyrank::frontends::onnx
