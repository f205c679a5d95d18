// Expressions of parameters: their values and their text.

#include "frontends/onnx/Expression.h"

#include <cmath>

#include "frontends/onnx/Parameters.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace polyrank::frontends::onnx {

using Kind = Expression::Kind;

Expression Expression::ofNumber(double number) {
  Expression e;
  e.kind = Kind::Number;
  e.number = number;
  return e;
}

Expression Expression::of(Kind kind, std::vector<Expression> operands) {
  Expression e;
  e.kind = kind;
  e.operands = std::move(operands);
  return e;
}

double apply(Kind kind, double x) {
  switch (kind) {
  case Kind::Neg:
    return -x;
  case Kind::Exp:
    return std::exp(x);
  case Kind::Log:
    return std::log(x);
  case Kind::Sqrt:
    return std::sqrt(x);
  case Kind::Sigmoid:
    return 1 / (1 + std::exp(-x));
  case Kind::Tanh:
    return std::tanh(x);
  case Kind::Abs:
    return std::fabs(x);
  case Kind::Relu:
    return x > 0 ? x : 0;
  default:
    llvm_unreachable("no function of one operand");
  }
}

double apply(Kind kind, double x, double y) {
  switch (kind) {
  case Kind::Add:
    return x + y;
  case Kind::Sub:
    return x - y;
  case Kind::Mul:
    return x * y;
  case Kind::Div:
    return x / y;
  default:
    llvm_unreachable("no function of two operands");
  }
}

static std::string numberToString(double number) {
  std::string text;
  raw_string_ostream(text) << llvm::format("%.7g", number);
  return text;
}

static std::string listOf(ArrayRef<int64_t> numbers) {
  return llvm::join(
      llvm::map_range(numbers, [](int64_t n) { return std::to_string(n); }),
      ", ");
}

static std::string viewToString(const Expression &e,
                                const std::vector<Parameter> &parameters,
                                const std::vector<int64_t> &dims) {
  const Parameter &parameter = parameters[e.parameter];
  std::string text = "`" + parameter.name + "`";
  std::vector<int64_t> from = parameter.getDims(), block;
  SmallVector<std::string> slices;
  size_t shown = 0;
  for (size_t i = 0; i < from.size(); ++i) {
    bool whole = e.starts[i] == 0 && e.limits[i] == from[i];
    block.push_back(e.limits[i] - e.starts[i]);
    slices.push_back(whole ? ":"
                           : std::to_string(e.starts[i]) + ":" +
                                 std::to_string(e.limits[i]));
    shown = whole ? shown : slices.size();
  }
  if (shown)
    text += "[" + llvm::join(ArrayRef(slices).take_front(shown), ", ") + "]";
  if (!llvm::equal(e.permutation,
                   llvm::seq<int64_t>(0, e.permutation.size()))) {
    text += e.permutation.size() == 2
                ? std::string(".t()")
                : ".permute(" + listOf(e.permutation) + ")";
    std::vector<int64_t> permuted;
    for (int64_t dim : e.permutation)
      permuted.push_back(block[dim]);
    block = permuted;
  }
  if (block != e.shape)
    text += ".reshape(" + listOf(e.shape) + ")";
  if (e.shape != dims)
    text += ".expand(" + listOf(dims) + ")";
  return text;
}

std::string toString(const Expression &e,
                     const std::vector<Parameter> &parameters,
                     const std::vector<int64_t> &dims) {
  auto isSum = [](Kind kind) { return kind == Kind::Add || kind == Kind::Sub; };
  auto operand = [&](size_t i) {
    const Expression &x = e.operands[i];
    bool isFirst = i == 0, isWhole = x.operands.size() < 2;
    // Python's precedence: sums bind less than products, both associate to the
    // left.
    bool needsNone = isSum(e.kind)
                         ? isFirst || e.kind == Kind::Add || !isSum(x.kind)
                         : !isSum(x.kind) && (isFirst || e.kind == Kind::Mul);
    std::string text = toString(x, parameters, dims);
    return isWhole || (needsNone && e.operands.size() == 2) ||
                   (e.operands.size() == 1 && e.kind != Kind::Neg)
               ? text
               : "(" + text + ")";
  };
  switch (e.kind) {
  case Kind::View:
    return viewToString(e, parameters, dims);
  case Kind::Number:
    return numberToString(e.number);
  case Kind::Neg:
    return "-" + operand(0);
  case Kind::Exp:
    return "exp(" + operand(0) + ")";
  case Kind::Log:
    return "log(" + operand(0) + ")";
  case Kind::Sqrt:
    return "sqrt(" + operand(0) + ")";
  case Kind::Sigmoid:
    return "sigmoid(" + operand(0) + ")";
  case Kind::Tanh:
    return "tanh(" + operand(0) + ")";
  case Kind::Abs:
    return "abs(" + operand(0) + ")";
  case Kind::Relu:
    return "relu(" + operand(0) + ")";
  case Kind::Add:
    return operand(0) + " + " + operand(1);
  case Kind::Sub:
    return operand(0) + " - " + operand(1);
  case Kind::Mul:
    return operand(0) + " * " + operand(1);
  case Kind::Div:
    return operand(0) + " / " + operand(1);
  case Kind::Concat: {
    SmallVector<std::string> parts;
    for (const Expression &part : e.operands)
      parts.push_back(toString(part, parameters, part.shape));
    return "cat(" + llvm::join(parts, ", ") + ")";
  }
  }
  llvm_unreachable("covered switch");
}

} // namespace polyrank::frontends::onnx
