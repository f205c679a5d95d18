// Finds functions of one to three parameters that give a constant.

#include "frontends/onnx/FunctionSearch.h"

#include <algorithm>
#include <cmath>

#include "frontends/onnx/OperatorNames.h"

using namespace llvm;

namespace polyrank::frontends::onnx {

namespace {

using Kind = Expression::Kind;
using Dims = std::vector<int64_t>;

/// The most views of one parameter that are tried as operands.
constexpr size_t mostViews = 256;
/// The most combinations of operands for one constant.
constexpr size_t mostCombinations = size_t(1) << 20;

void forEachView(const Expression &e,
                 function_ref<void(const Expression &)> body) {
  if (e.kind == Kind::View)
    body(e);
  for (const Expression &operand : e.operands)
    forEachView(operand, body);
}

Expression times(double factor, Expression x) {
  if (factor == 1)
    return x;
  if (factor == -1)
    return Expression::of(Kind::Neg, {std::move(x)});
  return Expression::of(Kind::Mul,
                        {Expression::ofNumber(factor), std::move(x)});
}

class FunctionSearch {
public:
  FunctionSearch(const SampledConstant &constant, LoadParameter load)
      : constant(constant), load(load) {}

  void find(ArrayRef<size_t> parameters, std::vector<Expression> &found) {
    std::vector<std::vector<Term>> terms;
    size_t combinations = 1;
    for (size_t parameter : parameters) {
      terms.push_back(termsOf(parameter));
      combinations *= terms.back().size();
    }
    if (combinations == 0 || combinations > mostCombinations)
      return;
    if (terms.size() == 1) {
      for (const Term &x : terms[0])
        ofOne(x, found);
      if (found.empty() && terms[0].size() * terms[0].size() < mostCombinations)
        for (size_t i = 0; i < terms[0].size(); ++i)
          for (size_t j = 0; j < i; ++j)
            ofTwo(terms[0][j], terms[0][i], found);
    } else if (terms.size() == 2) {
      for (const Term &x : terms[0])
        for (const Term &y : terms[1])
          ofTwo(x, y, found);
    } else if (terms.size() == 3) {
      for (const Term &x : terms[0])
        for (const Term &y : terms[1])
          for (const Term &z : terms[2]) {
            const Term *all[] = {&x, &y, &z};
            ofThree(all, found);
          }
    }
  }

private:
  /// A possible operand, with its values at the samples.
  struct Term {
    Expression expression;
    std::vector<double> values;
    bool varies = false;
  };

  std::vector<Term> termsOf(size_t parameter) {
    std::vector<Term> terms;
    const StoredFloats *from = load(parameter);
    if (!from)
      return terms;
    auto add = [&](const Expression &view) {
      Term &term = terms.emplace_back(Term{view, {}, false});
      ViewMap map(view, from->dims, constant.floats.dims);
      for (int64_t i : constant.samples)
        term.values.push_back(from->values[map(i)]);
      term.varies = any_of(term.values, [&](double value) {
        return value != term.values.front();
      });
    };
    for (Expression &view : enumerateViews(
             parameter, from->dims, constant.floats.dims, constant.repeated)) {
      Dims sizes = view.limits; // number of block positions, per dim
      size_t count = 1;
      for (size_t i = 0; i < sizes.size(); ++i)
        count *= sizes[i] = from->dims[i] - view.limits[i] + 1;
      if (terms.size() + count > mostViews)
        continue;
      for (size_t i = 0; i < count; ++i) {
        Expression moved = view;
        if (moveTo(moved, unravel(i, sizes), from->dims))
          add(moved);
      }
    }
    return terms;
  }

  /// Returns true if `e` gives all elements.
  bool matches(const Expression &e) const {
    SmallVector<std::pair<const Expression *, ViewMap>> maps;
    forEachView(e, [&](const Expression &view) {
      maps.push_back({&view, ViewMap(view, load(view.parameter)->dims,
                                     constant.floats.dims)});
    });
    for (int64_t i = 0, n = constant.floats.values.size(); i < n; ++i) {
      double magnitude = 0;
      double value = evaluate(e, [&](const Expression &view) -> double {
        const ViewMap &map = llvm::find_if(maps, [&](auto &each) {
                               return each.first == &view;
                             })->second;
        double x = load(view.parameter)->values[map(i)];
        if (e.kind == Kind::Add || e.kind == Kind::Sub)
          magnitude = std::max(magnitude, std::fabs(x));
        return x;
      });
      if (!constant.gives(constant.floats.values[i], value, magnitude))
        return false;
    }
    return true;
  }

  void consider(Expression e, bool varies, std::vector<Expression> &found) {
    constexpr size_t enough = 16;
    if (found.size() >= enough || !matches(e))
      return;
    // If an operand has the same value everywhere, several functions may match
    // by coincidence.
    if ((constant.isTelling && varies) || areNamed(e, constant.operators))
      found.push_back(std::move(e));
  }

  /// Tries factor * f(x), x * x and f(x) + number.
  void ofOne(const Term &x, std::vector<Expression> &found) {
    auto none = [](size_t) { return 0.0; };
    auto tryOne = [&](Expression e, function_ref<double(size_t)> value,
                      bool isPlain) {
      double factor = constant.factorOf(
          value, [&](size_t i) { return constant.target(i); }, none);
      if (factor != 0 && !(isPlain && factor == 1) &&
          (constant.samples.size() > 2 || factor == 1 || factor == -1))
        return consider(times(factor, e), x.varies, found);
      double number = constant.target(0) - value(0);
      if (number == 0 || constant.samples.size() < 3)
        return;
      if (double rounded = static_cast<float>(number);
          constant.agree([&](size_t i) { return value(i) + rounded; },
                         [&](size_t i) { return std::fabs(value(i)); }))
        consider(Expression::of(Kind::Add, {e, Expression::ofNumber(rounded)}),
                 x.varies, found);
    };
    tryOne(x.expression, [&](size_t i) { return x.values[i]; }, true);
    for (Kind kind : {Kind::Exp, Kind::Log, Kind::Sqrt, Kind::Sigmoid,
                      Kind::Tanh, Kind::Abs, Kind::Relu})
      tryOne(
          Expression::of(kind, {x.expression}),
          [&](size_t i) { return apply(kind, x.values[i]); }, false);
    tryOne(
        Expression::of(Kind::Mul, {x.expression, x.expression}),
        [&](size_t i) { return x.values[i] * x.values[i]; }, false);
    tryOne(
        Expression::of(Kind::Div, {Expression::ofNumber(1), x.expression}),
        [&](size_t i) { return 1 / x.values[i]; }, false);
  }

  /// Tries x + factor * y, y + factor * x, products and quotients of them times
  /// a number, and x + number * (y - x).
  void ofTwo(const Term &x, const Term &y, std::vector<Expression> &found) {
    bool varies = x.varies && y.varies;
    auto size = [&](size_t i) {
      return std::max(std::fabs(x.values[i]), std::fabs(y.values[i]));
    };
    auto sum = [&](const Term &a, const Term &b) {
      // True if c - a is a multiple of b, up to the rounding of the sum.
      double factor = constant.factorOf(
          [&](size_t i) { return b.values[i]; },
          [&](size_t i) { return constant.target(i) - a.values[i]; },
          [&](size_t i) { return size(i); });
      if (factor == 0 && none_of(b.values, [](double v) { return v != 0; }))
        factor = 1; // any factor of zeros gives the same values
      if (factor == 0 ||
          (constant.samples.size() < 3 && std::fabs(factor) != 1))
        return false;
      consider(factor == -1
                   ? Expression::of(Kind::Sub, {a.expression, b.expression})
                   : Expression::of(Kind::Add, {a.expression,
                                                times(factor, b.expression)}),
               varies, found);
      return factor == 1;
    };
    if (!sum(x, y))
      sum(y, x);
    auto none = [](size_t) { return 0.0; };
    auto tryProduct = [&](Expression e, function_ref<double(size_t)> value) {
      double factor = constant.factorOf(
          value, [&](size_t i) { return constant.target(i); }, none);
      if (factor != 0 && (constant.samples.size() > 2 || factor == 1))
        consider(times(factor, std::move(e)), varies, found);
    };
    tryProduct(Expression::of(Kind::Mul, {x.expression, y.expression}),
               [&](size_t i) { return x.values[i] * y.values[i]; });
    tryProduct(Expression::of(Kind::Div, {x.expression, y.expression}),
               [&](size_t i) { return x.values[i] / y.values[i]; });
    tryProduct(Expression::of(Kind::Div, {y.expression, x.expression}),
               [&](size_t i) { return y.values[i] / x.values[i]; });
    double weight = constant.factorOf(
        [&](size_t i) { return y.values[i] - x.values[i]; },
        [&](size_t i) { return constant.target(i) - x.values[i]; }, size);
    if (weight != 0 && weight != 1 && constant.samples.size() > 2)
      consider(lerp(x.expression, y.expression, Expression::ofNumber(weight)),
               varies, found);
  }

  static Expression lerp(Expression from, Expression to, Expression weight) {
    Expression difference = Expression::of(Kind::Sub, {std::move(to), from});
    return Expression::of(
        Kind::Add, {from, Expression::of(Kind::Mul, {std::move(weight),
                                                     std::move(difference)})});
  }

  /// Tries the sum, x + y * (z - x), x + number * y * z and x + number * y / z.
  void ofThree(ArrayRef<const Term *> terms, std::vector<Expression> &found) {
    bool varies = all_of(terms, [](const Term *term) { return term->varies; });
    auto at = [&](int which) { return terms[which]->values.data(); };
    auto size = [&](size_t i) {
      return std::max(
          {std::fabs(at(0)[i]), std::fabs(at(1)[i]), std::fabs(at(2)[i])});
    };
    auto expression = [&](int which) { return terms[which]->expression; };
    if (constant.agree([&](size_t i) { return at(0)[i] + at(1)[i] + at(2)[i]; },
                       size))
      consider(Expression::of(
                   Kind::Add,
                   {Expression::of(Kind::Add, {expression(0), expression(1)}),
                    expression(2)}),
               varies, found);
    int order[] = {0, 1, 2};
    do {
      int a = order[0], b = order[1], c = order[2];
      if (constant.agree(
              [&](size_t i) {
                return at(a)[i] + at(b)[i] * (at(c)[i] - at(a)[i]);
              },
              size))
        consider(lerp(expression(a), expression(c), expression(b)), varies,
                 found);
      auto add = [&](Kind kind) {
        double factor = constant.factorOf(
            [&](size_t i) { return apply(kind, at(b)[i], at(c)[i]); },
            [&](size_t i) { return constant.target(i) - at(a)[i]; }, size);
        if (factor != 0 && constant.samples.size() > 2)
          consider(Expression::of(
                       Kind::Add,
                       {expression(a),
                        times(factor, Expression::of(kind, {expression(b),
                                                            expression(c)}))}),
                   varies, found);
      };
      if (b < c)
        add(Kind::Mul);
      add(Kind::Div);
    } while (std::next_permutation(order, order + 3));
  }

  const SampledConstant &constant;
  LoadParameter load;
};

} // namespace

void findFunctions(const SampledConstant &constant, ArrayRef<size_t> parameters,
                   LoadParameter load, std::vector<Expression> &found) {
  FunctionSearch(constant, load).find(parameters, found);
}

} // namespace polyrank::frontends::onnx
