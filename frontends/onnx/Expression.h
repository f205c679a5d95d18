// What an exporter computed into a constant, as an expression of parameters.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace polyrank::frontends::onnx {

struct Parameter;

/// A tree over views of parameters and numbers. All of its values have the
/// shape of the constant that it stands for; only a concat, which is the whole
/// tree, is of views with dims of their own, one after the other along the
/// first, in the shape of the constant.
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
  /// A view: of parameter number `parameter`, in the model's orientation, the
  /// block from `starts` to `limits` (exclusive), its dims in the order
  /// `permutation`, reshaped to `shape`. That has the rank of the constant; its
  /// dims of one repeat up to the constant's.
  size_t parameter = 0;
  std::vector<int64_t> starts, limits, permutation, shape;
  double number = 0;
  std::vector<Expression> operands;

  static Expression ofNumber(double number);
  static Expression of(Kind kind, std::vector<Expression> operands);
};

/// As PyTorch writes it, "w[0:4].t() + v"; `dims` are those of the constant.
std::string toString(const Expression &e,
                     const std::vector<Parameter> &parameters,
                     const std::vector<int64_t> &dims);

/// The value of one element, where `view` gives those of the views.
template <typename ViewFn>
double evaluate(const Expression &e, ViewFn &&view);

/// The value of a function of one operand.
double apply(Expression::Kind kind, double x);
/// The value of a function of two operands.
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
