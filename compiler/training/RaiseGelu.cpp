// Raises gelu from its ops.

#include "compiler/training/RaiseComposites.h"

#include <map>

#include "dialects/graph/Forward.h"
#include "dialects/graph/Parts.h"
#include "dialects/graph/Provenance.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;

namespace {

/// A polynomial in two values: coefficients by their exponents.
using Polynomial = std::map<std::pair<int, int>, double>;

/// Reads values as polynomials in `x` and `t`.
class PolynomialReader {
public:
  PolynomialReader(Value x, Value t) : x(x), t(t) {}

  std::optional<Polynomial> read(Value value, int depth = 8) const {
    if (value == x)
      return Polynomial{{{1, 0}, 1.0}};
    if (value == t)
      return Polynomial{{{0, 1}, 1.0}};
    if (std::optional<double> number = graph::getSplat(value))
      return Polynomial{{{0, 0}, *number}};
    Operation *op = value.getDefiningOp();
    if (!op || depth == 0)
      return std::nullopt;
    auto operand = [&](unsigned i) {
      return read(op->getOperand(i), depth - 1);
    };
    if (isa<graph::NegOp>(op))
      return combine(operand(0), Polynomial{{{0, 0}, -1.0}}, multiply);
    if (!isa<graph::AddOp, graph::SubOp, graph::MulOp, graph::DivOp,
             graph::PowOp>(op))
      return std::nullopt;
    std::optional<Polynomial> left = operand(0), right = operand(1);
    if (isa<graph::AddOp>(op))
      return combine(left, right, add);
    if (isa<graph::SubOp>(op))
      return combine(left, combine(right, Polynomial{{{0, 0}, -1.0}}, multiply),
                     add);
    if (isa<graph::MulOp>(op))
      return combine(left, right, multiply);
    std::optional<double> number = graph::getSplat(op->getOperand(1));
    if (!number || !left)
      return std::nullopt;
    if (isa<graph::DivOp>(op))
      return combine(left, Polynomial{{{0, 0}, 1 / *number}}, multiply);
    if (*number != 2 && *number != 3)
      return std::nullopt;
    std::optional<Polynomial> power = left;
    for (int i = 1; i < *number; ++i)
      power = combine(power, left, multiply);
    return power;
  }

private:
  static Polynomial add(const Polynomial &left, const Polynomial &right) {
    Polynomial sum = left;
    for (auto [exponents, coefficient] : right)
      sum[exponents] += coefficient;
    return sum;
  }
  static Polynomial multiply(const Polynomial &left, const Polynomial &right) {
    Polynomial product;
    for (auto [a, x] : left)
      for (auto [b, y] : right)
        product[{a.first + b.first, a.second + b.second}] += x * y;
    return product;
  }
  static std::optional<Polynomial>
  combine(const std::optional<Polynomial> &left,
          const std::optional<Polynomial> &right,
          Polynomial (*function)(const Polynomial &, const Polynomial &)) {
    if (!left || !right)
      return std::nullopt;
    return function(*left, *right);
  }

  Value x, t;
};

} // namespace

static bool isPolynomial(const std::optional<Polynomial> &polynomial,
                         const Polynomial &expected) {
  if (!polynomial)
    return false;
  Polynomial rest = *polynomial;
  for (auto [exponents, coefficient] : expected) {
    auto found = rest.find(exponents);
    if (found == rest.end() || !isNear(found->second, coefficient))
      return false;
    rest.erase(found);
  }
  return llvm::all_of(rest, [](auto &term) { return term.second == 0; });
}

/// Collects `value` and the values from which arithmetic computes it, to a
/// depth.
static void collectInputs(Value value, int depth,
                          SmallVectorImpl<Value> &inputs) {
  if (llvm::is_contained(inputs, value))
    return;
  inputs.push_back(value);
  Operation *op = value.getDefiningOp();
  if (op && depth > 0 &&
      isa<graph::AddOp, graph::MulOp, graph::DivOp, graph::PowOp>(op))
    for (Value operand : op->getOperands())
      collectInputs(operand, depth - 1, inputs);
}

/// Collects the ops that compute from `value` by sums and products, to a depth.
static void collectOutputs(Value value, int depth,
                           SmallVectorImpl<Operation *> &outputs) {
  for (Operation *user : value.getUsers()) {
    if (!isa<graph::AddOp, graph::MulOp, graph::DivOp>(user) ||
        llvm::is_contained(outputs, user))
      continue;
    outputs.push_back(user);
    if (depth > 0)
      collectOutputs(user->getResult(0), depth - 1, outputs);
  }
}

/// Raises x/2 + x/2 t, where t is erf(x / sqrt 2) or tanh(sqrt(2/pi) (x + c
/// x^3)), with the sums and products in any order.
bool training::raiseGelu(Operation *op) {
  bool isErf = isa<graph::ErfOp>(op);
  Value t = op->getResult(0);
  Polynomial inner{{{1, 0}, std::sqrt(0.5)}};
  if (!isErf) {
    double slope = std::sqrt(2 / M_PI);
    inner = {{{1, 0}, slope}, {{3, 0}, slope * 0.044715}};
  }
  SmallVector<Value> candidates;
  collectInputs(op->getOperand(0), 6, candidates);
  SmallVector<Operation *> roots;
  collectOutputs(t, 3, roots);
  for (Value x : candidates) {
    PolynomialReader reader(x, t);
    if (!isPolynomial(reader.read(op->getOperand(0)), inner))
      continue;
    for (Operation *root : roots) {
      if (!isPolynomial(reader.read(root->getResult(0)),
                        {{{1, 0}, 0.5}, {{1, 1}, 0.5}}))
        continue;
      OpBuilder builder(root);
      Value gelu = graph::GeluOp::create(builder, root->getLoc(), x,
                                         isErf ? graph::GeluForm::Erf
                                               : graph::GeluForm::Tanh);
      graph::copyProvenance(root, gelu.getDefiningOp());
      root->getResult(0).replaceAllUsesWith(gelu);
      return true;
    }
  }
  return false;
}
