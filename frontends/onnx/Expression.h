// A constant that an exporter computed, as an expression of parameters.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace polyrank::frontends::onnx {

struct Parameter;

/// A tree over views of parameters and numbers. All its values have the shape
/// of the constant that it stands for. The exception is a concat, which can
/// only be the root: its operands are views with dims of their own,
/// concatenated along the first dim to the shape of the constant.
struct Expression {
  enum class Kind {
    View,
    Number,
    Neg,
    Exp,
    Log,
    Sqrt,
    Sigmoid,
    Tanh,
    Abs,
    Relu,
    Add,
    Sub,
    Mul,
    Div,
    Concat
  };
  Kind kind = Kind::View;
  /// A view shows parameter number `parameter`, in the model's
  /// orientation: the block from `starts` to `limits` (exclusive), with its
  /// dims permuted by `permutation` and reshaped to `shape`. `shape` has the
  /// rank of the constant; its dims of size 1 are repeated to the constant's.
  size_t parameter = 0;
  std::vector<int64_t> starts, limits, permutation, shape;
  double number = 0;
  std::vector<Expression> operands;

  static Expression ofNumber(double number);
  static Expression of(Kind kind, std::vector<Expression> operands);
};

/// Formats the expression as PyTorch code, "w[0:4].t() + v"; `dims` are those
/// of the constant.
std::string toString(const Expression &e,
                     const std::vector<Parameter> &parameters,
                     const std::vector<int64_t> &dims);

/// The value of one element; `view` gives the elements of the views.
template <typename ViewFn>
double evaluate(const Expression &e, ViewFn &&view);

/// Applies a unary function.
double apply(Expression::Kind kind, double x);
/// Applies a binary function.
double apply(Expression::Kind kind, double x, double y);

template <typename ViewFn>
double evaluate(const Expression &e, ViewFn &&view) {
  switch (e.operands.size()) {
  case 0:
    return e.kind == Expression::Kind::Number ? e.number : view(e);
  case 1:
    return apply(e.kind, evaluate(e.operands[0], view));
  default:
    return apply(e.kind, evaluate(e.operands[0], view),
                 evaluate(e.operands[1], view));
  }
}

} // namespace polyrank::frontends::onnx
