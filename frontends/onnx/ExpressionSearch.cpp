// Searches for the expression of parameters that gives a constant.

#include "frontends/onnx/ExpressionSearch.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace polyrank::frontends::onnx {

StringRef operatorOf(StringRef name) {
  while (true) {
    auto [front, back] = name.rsplit('_');
    if (back.empty() || !all_of(back, isDigit))
      return name;
    name = front;
  }
}

namespace {

using Kind = Expression::Kind;
using Dims = std::vector<int64_t>;

/// Views of one parameter that are tried as operands.
constexpr size_t mostViews = 256;
/// Of operands for one constant.
constexpr size_t mostCombinations = size_t(1) << 20;
/// Elements that are compared first.
constexpr int64_t mostSamples = 32;
/// Places where a block may begin that are compared.
constexpr size_t mostPlaces = size_t(1) << 16;
/// A constant of fewer different elements says little about where it is from.
constexpr size_t fewElements = 4;

bool isAnyOf(StringRef name, ArrayRef<StringRef> names) {
  return is_contained(names, name);
}

/// Operators that leave the elements in their order, and what they are given.
bool keepsOrder(StringRef name) {
  return isAnyOf(name, {"val", "unsqueeze", "squeeze", "view", "reshape",
                        "flatten", "unflatten", "_unsafe_view", "expand",
                        "expand_as", "broadcast_to", "clone", "contiguous",
                        "alias", "lift_fresh_copy"});
}

/// Operators that only move elements.
bool moves(StringRef name) {
  return keepsOrder(name) || name.starts_with("split") ||
         name.starts_with("unsafe_split") ||
         isAnyOf(name,
                 {"t", "transpose", "permute", "numpy_T", "movedim", "slice",
                  "narrow", "select", "getitem", "chunk", "unbind"});
}

/// Whether an operator of that name computes `kind`.
bool computes(StringRef name, Kind kind) {
  switch (kind) {
  case Kind::Add:
    return isAnyOf(name, {"add", "addcmul", "addcdiv", "lerp"});
  case Kind::Sub:
    return isAnyOf(name, {"sub", "rsub", "lerp"});
  case Kind::Mul:
    return isAnyOf(name, {"mul", "addcmul", "lerp", "square", "pow"});
  case Kind::Div:
    return isAnyOf(name, {"div", "addcdiv", "reciprocal"});
  case Kind::Neg:
    return name == "neg";
  case Kind::Exp:
    return name == "exp";
  case Kind::Log:
    return name == "log";
  case Kind::Sqrt:
    return name == "sqrt";
  case Kind::Sigmoid:
    return name == "sigmoid";
  case Kind::Tanh:
    return name == "tanh";
  case Kind::Abs:
    return name == "abs";
  case Kind::Relu:
    return name == "relu";
  case Kind::View:
  case Kind::Number:
    return true;
  }
  llvm_unreachable("covered switch");
}

/// Whether the name is one that the exporter makes up for parts of operators,
/// or that of a number.
bool isPart(StringRef name) {
  constexpr StringRef starts[] = {"val",   "tmp",  "const", "value",
                                  "alpha", "diff", "weight"};
  return isAnyOf(name, {"scalar_tensor_default", "other", "zeros", "ones"}) ||
         any_of(starts, [&](StringRef start) {
           return name == start || name.starts_with((start + "_").str());
         });
}

/// Whether the operator is among those of which expressions are made. Others
/// could give the same values with other gradients: a / a.norm() is a multiple
/// of a.
bool isUnderstood(StringRef name) {
  if (moves(name) || isPart(name))
    return true;
  for (Kind kind :
       {Kind::Neg, Kind::Exp, Kind::Log, Kind::Sqrt, Kind::Sigmoid, Kind::Tanh,
        Kind::Abs, Kind::Relu, Kind::Add, Kind::Sub, Kind::Mul, Kind::Div})
    if (computes(name, kind))
      return true;
  return false;
}

/// Half a unit in the last place of 1.
double epsilonOf(DataType type) {
  return type == DataType::BFloat16  ? std::ldexp(1, -8)
         : type == DataType::Float16 ? std::ldexp(1, -11)
                                     : std::ldexp(1, -24);
}

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

/// Searches for one constant.
class Search {
public:
  Search(const SearchedConstant &searched, bool isRecorded, LoadParameter load)
      : constant(searched.floats), type(searched.type),
        operators(searched.operators), isRecorded(isRecorded), load(load) {
    int64_t count = constant.values.size();
    int64_t step = std::max<int64_t>(count / mostSamples, 1);
    for (int64_t i = 0; i < count && samples.size() < mostSamples; i += step)
      samples.push_back(i + (i / step) % step);
    std::set<float> different;
    for (float value : constant.values)
      if (different.insert(value).second && different.size() == fewElements)
        break;
    isTelling = different.size() == fewElements;
    for (size_t dim = 0; dim < constant.dims.size(); ++dim)
      if (repeatsAlong(dim))
        repeated.push_back(dim);
  }

  /// Null where there is none; `several` where there is more than one.
  std::optional<Expression> find(ArrayRef<size_t> parameters, bool &several) {
    // Of all parameters that it was computed from, else of fewer: some were
    // multiplied by zeros.
    for (size_t count = parameters.size(); count > 0; --count) {
      std::vector<Expression> found;
      forEachSubset(parameters, count, [&](ArrayRef<size_t> subset) {
        if (subset.size() == 1)
          findViews(subset[0], found);
        if (isRecorded && (subset.size() > 1 || found.empty()) &&
            all_of(operators, isUnderstood))
          findFunctions(subset, found);
      });
      if (found.empty())
        continue;
      if (found.size() > 1)
        erase_if(found, [&](const Expression &e) { return !isNamed(e); });
      several = found.size() != 1;
      return several ? std::nullopt : std::optional(found.front());
    }
    return std::nullopt;
  }

private:
  bool repeatsAlong(size_t dim) const {
    int64_t size = constant.dims[dim], inner = 1;
    for (size_t i = dim + 1; i < constant.dims.size(); ++i)
      inner *= constant.dims[i];
    if (size == 1)
      return false;
    for (int64_t i = 0, n = constant.values.size(); i < n; ++i)
      if (i / inner % size != 0 &&
          constant.values[i] != constant.values[i - inner])
        return false;
    return true;
  }

  static void forEachSubset(ArrayRef<size_t> all, size_t count,
                            function_ref<void(ArrayRef<size_t>)> body) {
    if (all.size() > 8) // too many to be a simple function
      return count == all.size() ? body(all) : void();
    for (unsigned bits = 0; bits < 1u << all.size(); ++bits) {
      SmallVector<size_t> subset;
      for (size_t i = 0; i < all.size(); ++i)
        if (bits >> i & 1)
          subset.push_back(all[i]);
      if (subset.size() == count)
        body(subset);
    }
  }

  /// Whether the record has an operator for each function in `e`, none that
  /// computes where `e` is a view, and none that moves where it is a whole
  /// parameter in order.
  bool isNamed(const Expression &e) const {
    if (!isRecorded)
      return false;
    if (e.kind != Kind::View)
      return areNamed(e);
    // A layer whose input was zeros has the values of its bias.
    bool isBias = e.starts.size() == 1 && e.shape.back() != 1 &&
                  is_contained(operators, "linear");
    if (!isBias && !all_of(operators, moves))
      return false;
    bool inOrder = llvm::equal(e.permutation,
                               llvm::seq<int64_t>(0, e.permutation.size())) &&
                   all_of(e.starts, [](int64_t start) { return start == 0; }) &&
                   Dims(e.limits) == load(e.parameter)->dims;
    return isBias || all_of(operators, keepsOrder) == inOrder;
  }

  bool areNamed(const Expression &e) const {
    return any_of(operators,
                  [&](StringRef name) { return computes(name, e.kind); }) &&
           all_of(e.operands,
                  [&](const Expression &operand) { return areNamed(operand); });
  }

  //===-- views
  //------------------------------------------------------------===//

  bool isEqual(const Expression &view, const StoredFloats &from) const {
    ViewMap map(view, from.dims, constant.dims);
    for (int64_t i : samples)
      if (from.values[map(i)] != constant.values[i])
        return false;
    for (int64_t i = 0, n = constant.values.size(); i < n; ++i)
      if (from.values[map(i)] != constant.values[i])
        return false;
    return true;
  }

  bool areSame(const Expression &a, const Expression &b) const {
    if (a.parameter != b.parameter)
      return false;
    const Dims &from = load(a.parameter)->dims;
    ViewMap left(a, from, constant.dims), right(b, from, constant.dims);
    for (int64_t i = 0, n = constant.values.size(); i < n; ++i)
      if (left(i) != right(i))
        return false;
    return true;
  }

  void findViews(size_t parameter, std::vector<Expression> &found) {
    const StoredFloats *from = load(parameter);
    if (!from)
      return;
    constexpr size_t enough = 16;
    size_t places = 0;
    for (Expression &view :
         enumerateViews(parameter, from->dims, constant.dims, repeated)) {
      auto consider = [&](ArrayRef<int64_t> starts) {
        Expression moved = view;
        if (found.size() < enough && moveTo(moved, starts, from->dims) &&
            isEqual(moved, *from) && none_of(found, [&](const Expression &e) {
              return areSame(e, moved);
            }))
          found.push_back(std::move(moved));
      };
      if (Dims(view.limits) == from->dims) {
        consider(view.starts);
        continue;
      }
      // A block begins where the first element of the constant is.
      for (int64_t i = 0, n = from->values.size(); i < n; ++i)
        if (from->values[i] == constant.values[0] && places++ < mostPlaces)
          consider(unravel(i, from->dims));
    }
    // Elements that may be from anywhere: operators must have the last word.
    bool single = constant.values.size() == 1 && found.size() == 1 &&
                  is_contained(operators, "slice");
    if (!isTelling && !single)
      erase_if(found, [&](const Expression &e) { return !isNamed(e); });
  }

  //===-- functions
  //--------------------------------------------------------===//

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
      ViewMap map(view, from->dims, constant.dims);
      for (int64_t i : samples)
        term.values.push_back(from->values[map(i)]);
      term.varies = any_of(term.values, [&](double value) {
        return value != term.values.front();
      });
    };
    for (Expression &view :
         enumerateViews(parameter, from->dims, constant.dims, repeated)) {
      Dims sizes = view.limits; // places for the block, per dim
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

  bool gives(double expected, double value, double magnitude) const {
    return std::fabs(expected - value) <=
           4 * epsilonOf(type) * std::max(std::fabs(expected), magnitude);
  }

  /// Whether `e` gives all elements.
  bool matches(const Expression &e) const {
    SmallVector<std::pair<const Expression *, ViewMap>> maps;
    forEachView(e, [&](const Expression &view) {
      maps.push_back(
          {&view, ViewMap(view, load(view.parameter)->dims, constant.dims)});
    });
    for (int64_t i = 0, n = constant.values.size(); i < n; ++i) {
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
      if (!gives(constant.values[i], value, magnitude))
        return false;
    }
    return true;
  }

  void consider(Expression e, bool varies, std::vector<Expression> &found) {
    constexpr size_t enough = 16;
    if (found.size() >= enough || !matches(e))
      return;
    // Where an operand is the same everywhere, several functions may give the
    // same.
    if ((isTelling && varies) || areNamed(e))
      found.push_back(std::move(e));
  }

  /// At the samples, `value` of each gives the constant's.
  bool agree(
      function_ref<double(size_t)> value,
      function_ref<double(size_t)> magnitude = [](size_t) {
        return 0.0;
      }) const {
    for (size_t i = 0; i < samples.size(); ++i)
      if (!gives(constant.values[samples[i]], value(i), magnitude(i)))
        return false;
    return true;
  }
  double target(size_t sample) const {
    return constant.values[samples[sample]];
  }

  /// The factor with which `x` gives `y` best at the samples; 0 where none
  /// does. Of numbers that do, one of few digits.
  double factorOf(function_ref<double(size_t)> x,
                  function_ref<double(size_t)> y,
                  function_ref<double(size_t)> magnitude) const {
    double xx = 0, xy = 0;
    for (size_t i = 0; i < samples.size(); ++i) {
      xx += x(i) * x(i);
      xy += x(i) * y(i);
    }
    if (xx == 0 || !std::isfinite(xy / xx))
      return 0;
    double factor = xy / xx;
    auto fits = [&](double factor) {
      for (size_t i = 0; i < samples.size(); ++i)
        if (!gives(y(i), factor * x(i), magnitude(i)))
          return false;
      return true;
    };
    for (double digits = 1; digits <= 1e5; digits *= 10) {
      double scale =
          digits * std::pow(10, -std::floor(std::log10(std::fabs(factor))));
      double rounded = std::round(factor * scale) / scale;
      if (fits(rounded))
        return rounded;
    }
    return fits(factor) ? factor : 0;
  }

  void findFunctions(ArrayRef<size_t> parameters,
                     std::vector<Expression> &found) {
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

  /// factor * f(x), x * x and f(x) + number.
  void ofOne(const Term &x, std::vector<Expression> &found) {
    auto none = [](size_t) { return 0.0; };
    auto tryOne = [&](Expression e, function_ref<double(size_t)> value,
                      bool isPlain) {
      double factor =
          factorOf(value, [&](size_t i) { return target(i); }, none);
      if (factor != 0 && !(isPlain && factor == 1) &&
          (samples.size() > 2 || factor == 1 || factor == -1))
        return consider(times(factor, e), x.varies, found);
      double number = target(0) - value(0);
      if (number == 0 || samples.size() < 3)
        return;
      if (double rounded = static_cast<float>(number);
          agree([&](size_t i) { return value(i) + rounded; },
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

  /// x + factor * y, y + factor * x, products and quotients of them times a
  /// number, and x + number * (y - x).
  void ofTwo(const Term &x, const Term &y, std::vector<Expression> &found) {
    bool varies = x.varies && y.varies;
    auto size = [&](size_t i) {
      return std::max(std::fabs(x.values[i]), std::fabs(y.values[i]));
    };
    auto sum = [&](const Term &a, const Term &b) {
      // c - a is a multiple of b, up to the rounding of the sum.
      double factor =
          factorOf([&](size_t i) { return b.values[i]; },
                   [&](size_t i) { return target(i) - a.values[i]; },
                   [&](size_t i) { return size(i); });
      if (factor == 0 && none_of(b.values, [](double v) { return v != 0; }))
        factor = 1; // whatever it was, it shows nowhere
      if (factor == 0 || (samples.size() < 3 && std::fabs(factor) != 1))
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
      double factor =
          factorOf(value, [&](size_t i) { return target(i); }, none);
      if (factor != 0 && (samples.size() > 2 || factor == 1))
        consider(times(factor, std::move(e)), varies, found);
    };
    tryProduct(Expression::of(Kind::Mul, {x.expression, y.expression}),
               [&](size_t i) { return x.values[i] * y.values[i]; });
    tryProduct(Expression::of(Kind::Div, {x.expression, y.expression}),
               [&](size_t i) { return x.values[i] / y.values[i]; });
    tryProduct(Expression::of(Kind::Div, {y.expression, x.expression}),
               [&](size_t i) { return y.values[i] / x.values[i]; });
    double weight =
        factorOf([&](size_t i) { return y.values[i] - x.values[i]; },
                 [&](size_t i) { return target(i) - x.values[i]; }, size);
    if (weight != 0 && weight != 1 && samples.size() > 2)
      consider(lerp(x.expression, y.expression, Expression::ofNumber(weight)),
               varies, found);
  }

  static Expression lerp(Expression from, Expression to, Expression weight) {
    Expression difference = Expression::of(Kind::Sub, {std::move(to), from});
    return Expression::of(
        Kind::Add, {from, Expression::of(Kind::Mul, {std::move(weight),
                                                     std::move(difference)})});
  }

  /// The sum, x + y * (z - x), and x + number * y * z and x + number * y / z.
  void ofThree(ArrayRef<const Term *> terms, std::vector<Expression> &found) {
    bool varies = all_of(terms, [](const Term *term) { return term->varies; });
    auto at = [&](int which) { return terms[which]->values.data(); };
    auto size = [&](size_t i) {
      return std::max(
          {std::fabs(at(0)[i]), std::fabs(at(1)[i]), std::fabs(at(2)[i])});
    };
    auto expression = [&](int which) { return terms[which]->expression; };
    if (agree([&](size_t i) { return at(0)[i] + at(1)[i] + at(2)[i]; }, size))
      consider(Expression::of(
                   Kind::Add,
                   {Expression::of(Kind::Add, {expression(0), expression(1)}),
                    expression(2)}),
               varies, found);
    int order[] = {0, 1, 2};
    do {
      int a = order[0], b = order[1], c = order[2];
      if (agree(
              [&](size_t i) {
                return at(a)[i] + at(b)[i] * (at(c)[i] - at(a)[i]);
              },
              size))
        consider(lerp(expression(a), expression(c), expression(b)), varies,
                 found);
      auto add = [&](Kind kind) {
        double factor =
            factorOf([&](size_t i) { return apply(kind, at(b)[i], at(c)[i]); },
                     [&](size_t i) { return target(i) - at(a)[i]; }, size);
        if (factor != 0 && samples.size() > 2)
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

  const StoredFloats &constant;
  const DataType type;
  ArrayRef<StringRef> operators;
  const bool isRecorded;
  LoadParameter load;
  SmallVector<int64_t> samples;
  Dims repeated; // dims along which all slices are equal
  bool isTelling = false;
};

} // namespace

std::optional<Expression> searchExpression(const SearchedConstant &constant,
                                           ArrayRef<size_t> parameters,
                                           LoadParameter load, bool &several) {
  return Search(constant, /*isRecorded=*/true, load).find(parameters, several);
}

std::vector<Expression> searchViews(const SearchedConstant &constant,
                                    ArrayRef<size_t> parameters,
                                    LoadParameter load, bool &several) {
  Search search(constant, /*isRecorded=*/false, load);
  std::vector<Expression> found;
  for (size_t parameter : parameters)
    if (auto one = search.find(parameter, several))
      found.push_back(std::move(*one));
  return found;
}

} // namespace polyrank::frontends::onnx
