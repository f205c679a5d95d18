// Searches for an expression of parameters that gives a constant.

#include "frontends/onnx/ExpressionSearch.h"

#include "frontends/onnx/FunctionSearch.h"
#include "frontends/onnx/SampledConstant.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace polyrank::frontends::onnx {

namespace {

using Kind = Expression::Kind;
using Dims = std::vector<int64_t>;

/// The most block positions that are compared.
constexpr size_t mostPlaces = size_t(1) << 16;

bool allViews(const Expression &e, function_ref<bool(const Expression &)> is) {
  return e.kind == Kind::View ? is(e)
                              : all_of(e.operands, [&](const Expression &part) {
                                  return allViews(part, is);
                                });
}

/// The search for one constant.
class Search {
public:
  Search(const SearchedConstant &searched, bool isRecorded, LoadParameter load)
      : constant(searched), isRecorded(isRecorded), load(load) {}

  /// Returns nullopt if there is none or, with `several` set, more than one.
  std::optional<Expression> find(ArrayRef<size_t> parameters, bool &several) {
    // First uses all parameters from which it was computed, then fewer: some
    // may have been multiplied by zeros.
    for (size_t count = parameters.size(); count > 0; --count) {
      std::vector<Expression> found;
      forEachSubset(parameters, count, [&](ArrayRef<size_t> subset) {
        if (subset.size() == 1)
          findViews(subset[0], found);
        if (isRecorded && (subset.size() > 1 || found.empty()) &&
            all_of(constant.operators, isUnderstood))
          findFunctions(constant, subset, load, found);
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
  static void forEachSubset(ArrayRef<size_t> all, size_t count,
                            function_ref<void(ArrayRef<size_t>)> body) {
    if (all.size() > 8) // too many for a simple function
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

  /// Returns true if the view is the whole parameter in its own order.
  bool isInOrder(const Expression &view) const {
    return llvm::equal(view.permutation,
                       llvm::seq<int64_t>(0, view.permutation.size())) &&
           all_of(view.starts, [](int64_t start) { return start == 0; }) &&
           Dims(view.limits) == load(view.parameter)->dims;
  }

  /// Returns true if the record fits `e`. For a function: there is an operator
  /// for each function in `e`, and one that moves elements unless all views are
  /// whole parameters in order. For a view: no operator computes, and one moves
  /// elements exactly if the view is not a whole parameter in order.
  bool isNamed(const Expression &e) const {
    if (!isRecorded)
      return false;
    if (e.kind != Kind::View)
      return areNamed(e, constant.operators) &&
             (any_of(constant.operators,
                     [](StringRef name) {
                       return moves(name) && !keepsOrder(name);
                     }) ||
              allViews(
                  e, [&](const Expression &view) { return isInOrder(view); }));
    // A layer whose input was zeros gives the values of its bias.
    bool isBias = e.starts.size() == 1 && e.shape.back() != 1 &&
                  is_contained(constant.operators, "linear");
    if (!isBias && !all_of(constant.operators, moves))
      return false;
    return isBias || all_of(constant.operators, keepsOrder) == isInOrder(e);
  }

  bool isEqual(const Expression &view, const StoredFloats &from) const {
    ViewMap map(view, from.dims, constant.floats.dims);
    for (int64_t i : constant.samples)
      if (from.values[map(i)] != constant.floats.values[i])
        return false;
    for (int64_t i = 0, n = constant.floats.values.size(); i < n; ++i)
      if (from.values[map(i)] != constant.floats.values[i])
        return false;
    return true;
  }

  bool areSame(const Expression &a, const Expression &b) const {
    if (a.parameter != b.parameter)
      return false;
    const Dims &from = load(a.parameter)->dims;
    ViewMap left(a, from, constant.floats.dims),
        right(b, from, constant.floats.dims);
    for (int64_t i = 0, n = constant.floats.values.size(); i < n; ++i)
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
    for (Expression &view : enumerateViews(
             parameter, from->dims, constant.floats.dims, constant.repeated)) {
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
      // A block can only begin at an element equal to the constant's first one.
      for (int64_t i = 0, n = from->values.size(); i < n; ++i)
        if (from->values[i] == constant.floats.values[0] &&
            places++ < mostPlaces)
          consider(unravel(i, from->dims));
    }
    // Elements that may come from anywhere: the operators decide.
    bool single = constant.floats.values.size() == 1 && found.size() == 1 &&
                  is_contained(constant.operators, "slice");
    if (!constant.isTelling && !single)
      erase_if(found, [&](const Expression &e) { return !isNamed(e); });
  }

  const SampledConstant constant;
  const bool isRecorded;
  LoadParameter load;
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
