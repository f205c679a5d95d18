// Reads biases and masks of attention scores.

#include "compiler/training/AttentionTerms.h"

#include <cmath>

#include "dialects/graph/Boundary.h"
#include "dialects/graph/Parts.h"
#include "mlir/Analysis/SliceAnalysis.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::Comparison;
using graph::getShape;
using graph::Masked;

/// The dims of the scores that positions are.
enum : int64_t { queryDim = 2, keyDim = 3 };

/// No score outweighs such a number: e to a score with it is zero beside e to
/// one without it.
static constexpr double veryLow = -1e30;
static bool isVeryLow(double value) { return value <= veryLow; }

namespace {

/// query * position of the query + key * position of the key + constant.
struct Linear {
  double query = 0, key = 0, constant = 0;
};

} // namespace

/// Reads numbers that are linear in the positions.
static std::optional<Linear> readLinear(OpBuilder &builder,
                                        const Compact &compact) {
  if (std::optional<double> splat = graph::getSplat(compact.value))
    return Linear{0, 0, *splat};
  Operation *op = compact.value.getDefiningOp();
  if (!op)
    return std::nullopt;
  auto along = [](int64_t dim, double step,
                  double first) -> std::optional<Linear> {
    if (dim == queryDim)
      return Linear{step, 0, first};
    if (dim == keyDim)
      return Linear{0, step, first};
    return std::nullopt;
  };
  if (auto iota = dyn_cast<graph::IotaOp>(op))
    return along(compact.dims[iota.getDim()], 1, 0);
  if (auto constant = dyn_cast<graph::ConstantOp>(op)) {
    auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
    SmallVector<int64_t> varying = compact.getVarying();
    if (!elements || varying.size() != 1)
      return std::nullopt;
    auto numbers = graph::Tensor::fromAttribute(elements);
    double step = numbers.at(1) - numbers.at(0);
    for (int64_t i = 1; i < numbers.size(); ++i)
      if (numbers.at(i) - numbers.at(i - 1) != step)
        return std::nullopt;
    return along(varying[0], step, numbers.at(0));
  }
  if (!isa<graph::AddOp, graph::SubOp, graph::MulOp, graph::NegOp,
           graph::ConvertOp>(op))
    return std::nullopt;
  std::optional<Linear> left =
      readLinear(builder, makeCompact(builder, compact, 0));
  if (!left || isa<graph::ConvertOp>(op))
    return left;
  if (isa<graph::NegOp>(op))
    return Linear{-left->query, -left->key, -left->constant};
  std::optional<Linear> right =
      readLinear(builder, makeCompact(builder, compact, 1));
  if (!right)
    return std::nullopt;
  if (isa<graph::MulOp>(op)) {
    if (left->query == 0 && left->key == 0)
      std::swap(left, right);
    if (right->query != 0 || right->key != 0)
      return std::nullopt;
    double by = right->constant;
    return Linear{left->query * by, left->key * by, left->constant * by};
  }
  double sign = isa<graph::SubOp>(op) ? -1 : 1;
  return Linear{left->query + sign * right->query,
                left->key + sign * right->key,
                left->constant + sign * right->constant};
}

/// Returns the band of a constant [queries, keys] of booleans, if it is one.
static std::optional<Band> findBand(const graph::Tensor &visible,
                                    int64_t queries, int64_t keys) {
  Band band{std::numeric_limits<int32_t>::max(),
            std::numeric_limits<int32_t>::min()};
  for (int64_t query = 0; query < queries; ++query)
    for (int64_t key = 0; key < keys; ++key)
      if (visible.integers[query * keys + key]) {
        band.low = std::min(band.low, key - query);
        band.high = std::max(band.high, key - query);
      }
  for (int64_t query = 0; query < queries; ++query)
    for (int64_t key = 0; key < keys; ++key)
      if ((key - query >= band.low && key - query <= band.high) !=
          (visible.integers[query * keys + key] != 0))
        return std::nullopt;
  return band;
}

std::optional<Band> AttentionTerms::readConstant(const Compact &constant) {
  auto op = constant.value.getDefiningOp<graph::ConstantOp>();
  auto elements =
      op ? dyn_cast<DenseElementsAttr>(op.getValue()) : DenseElementsAttr();
  if (!elements ||
      constant.getVarying() != ArrayRef<int64_t>({queryDim, keyDim}))
    return std::nullopt;
  auto [entry, isNew] = known.try_emplace(elements);
  if (isNew)
    entry->second = findBand(graph::Tensor::fromAttribute(elements),
                             shape[queryDim], shape[keyDim]);
  return entry->second;
}

std::optional<Band> AttentionTerms::readBand(const Compact &condition) {
  if (std::optional<Band> band = readConstant(condition))
    return band;
  auto compare = condition.value.getDefiningOp<graph::CompareOp>();
  if (!compare)
    return std::nullopt;
  auto left = readLinear(builder, makeCompact(builder, condition, 0)),
       right = readLinear(builder, makeCompact(builder, condition, 1));
  if (!left || !right)
    return std::nullopt;
  double key = left->key - right->key, query = left->query - right->query,
         constant = left->constant - right->constant;
  if (std::abs(key) != 1 || query != -key || std::floor(constant) != constant)
    return std::nullopt;
  // key * (key - query) + constant compares with 0.
  Comparison comparison = compare.getComparison();
  bool isStrict = comparison == Comparison::LT || comparison == Comparison::GT;
  bool isLess = comparison == Comparison::LT || comparison == Comparison::LE;
  if (!isStrict && !isLess && comparison != Comparison::GE)
    return std::nullopt;
  int64_t limit = static_cast<int64_t>(-key * constant);
  Band band;
  if (isLess == (key > 0))
    band.high = limit - (isStrict ? 1 : 0);
  else
    band.low = limit + (isStrict ? 1 : 0);
  return band;
}

static Comparison inverse(Comparison comparison) {
  switch (comparison) {
  case Comparison::EQ:
    return Comparison::NE;
  case Comparison::NE:
    return Comparison::EQ;
  case Comparison::LT:
    return Comparison::GE;
  case Comparison::LE:
    return Comparison::GT;
  case Comparison::GT:
    return Comparison::LE;
  case Comparison::GE:
    return Comparison::LT;
  }
  llvm_unreachable("all comparisons are listed");
}

/// The opposite condition: of constants and comparisons of integers one of the
/// same kind.
Compact AttentionTerms::negate(const Compact &condition) {
  Operation *op = condition.value.getDefiningOp();
  Location location = condition.value.getLoc();
  if (isa_and_nonnull<graph::NotOp>(op))
    return makeCompact(builder, condition, 0);
  if (auto constant = dyn_cast_or_null<graph::ConstantOp>(op))
    if (auto elements = dyn_cast<DenseElementsAttr>(constant.getValue())) {
      auto flags = graph::Tensor::fromAttribute(elements);
      for (int64_t &flag : flags.integers)
        flag = flag == 0;
      return {graph::ConstantOp::create(builder, location, flags.toAttribute()),
              condition.dims};
    }
  auto compare = dyn_cast_or_null<graph::CompareOp>(op);
  if (compare && isa<IntegerType>(getElementTypeOrSelf(compare.getLhs())))
    return {graph::Parts(builder, location)
                .compare(compare.getLhs(), inverse(compare.getComparison()),
                         compare.getRhs()),
            condition.dims};
  return {graph::Parts(builder, location).apply<graph::NotOp>(condition.value),
          condition.dims};
}

void AttentionTerms::read(const Compact &condition, Hidden &hidden) {
  Operation *op = condition.value.getDefiningOp();
  if (isa_and_nonnull<graph::NotOp>(op)) {
    Compact inner = makeCompact(builder, condition, 0);
    if (isa_and_nonnull<graph::OrOp>(inner.value.getDefiningOp())) {
      read(negate(makeCompact(builder, inner, 0)), hidden);
      return read(negate(makeCompact(builder, inner, 1)), hidden);
    }
    Compact opposite = negate(inner);
    if (!isa_and_nonnull<graph::NotOp>(opposite.value.getDefiningOp()))
      return read(opposite, hidden);
  }
  if (isa_and_nonnull<graph::AndOp>(op)) {
    read(makeCompact(builder, condition, 0), hidden);
    read(makeCompact(builder, condition, 1), hidden);
  } else if (std::optional<Band> band = readBand(condition)) {
    hidden.band.intersect(*band);
  } else if (graph::getSplat(condition.value).value_or(0) == 0) {
    hidden.others.push_back(condition);
  }
}

bool AttentionTerms::addHidden(Compact condition, bool isNegated, Masked masked,
                               double fill) {
  if (isNegated)
    condition = negate(condition);
  Hidden each{{}, {}, {}, masked, fill, biases.size()};
  read(condition, each);
  int64_t queries = shape[queryDim], keys = shape[keyDim];
  if (each.others.empty() && each.band.low <= 1 - queries &&
      each.band.high >= keys - 1)
    return false; // it hides nothing
  hidden.push_back(std::move(each));
  return true;
}

void AttentionTerms::replace(Value condition, double fill) {
  if (addHidden(makeCompact(builder, condition), /*isNegated=*/false,
                Masked::Replace, fill))
    hidden.back().condition = condition;
}

/// A constant of zeros and one other number hides keys.
bool AttentionTerms::readAdditiveConstant(const Compact &term, double factor) {
  auto op = term.value.getDefiningOp<graph::ConstantOp>();
  auto elements =
      op ? dyn_cast<DenseElementsAttr>(op.getValue()) : DenseElementsAttr();
  if (!elements || elements.isSplat())
    return false;
  auto numbers = graph::Tensor::fromAttribute(elements);
  graph::Tensor visible(builder.getI1Type(), numbers.shape);
  double fill = 0;
  for (auto [flag, number] :
       llvm::zip_equal(visible.integers, numbers.floats)) {
    flag = number == 0;
    if (flag)
      continue;
    if (fill != 0 && number != fill)
      return false;
    fill = number;
  }
  if (!(fill < 0))
    return false;
  addHidden({graph::ConstantOp::create(builder, term.value.getLoc(),
                                       visible.toAttribute()),
             term.dims},
            /*isNegated=*/false, Masked::Add, fill * factor);
  return true;
}

void AttentionTerms::addCompact(const Compact &term, double factor) {
  if (graph::getSplat(term.value) == 0.0)
    return;
  Operation *op = term.value.getDefiningOp();
  if (isa_and_nonnull<graph::AddOp>(op)) {
    addCompact(makeCompact(builder, term, 0), factor);
    addCompact(makeCompact(builder, term, 1), factor);
    return;
  }
  if (auto select = dyn_cast_or_null<graph::SelectOp>(op)) {
    if (std::optional<double> always = graph::getSplat(select.getCondition())) {
      addCompact(makeCompact(builder, term, *always != 0 ? 1 : 2), factor);
      return;
    }
    std::optional<double> onTrue = graph::getSplat(select.getOnTrue()),
                          onFalse = graph::getSplat(select.getOnFalse());
    if (onFalse && isVeryLow(*onFalse * factor) && !onTrue) {
      // A number that is added to what positions let a query see, and a very
      // low one elsewhere: both, if the second hides keys anyway.
      size_t before = hidden.size();
      if (addHidden(makeCompact(builder, term, 0), /*isNegated=*/false,
                    Masked::Add, *onFalse * factor) &&
          !hidden.back().others.empty()) {
        hidden.truncate(before);
      } else {
        if (hidden.size() > before)
          hidden.back().mustCountNothing = true;
        return addCompact(makeCompact(builder, term, 1), factor);
      }
    }
    if (onTrue && onFalse && (*onTrue == 0 || *onFalse == 0)) {
      addHidden(makeCompact(builder, term, 0), /*isNegated=*/*onTrue != 0,
                Masked::Add, (*onTrue == 0 ? *onFalse : *onTrue) * factor);
      return;
    }
  }
  if (readAdditiveConstant(term, factor))
    return;
  Compact bias = term;
  if (getElementTypeOrSelf(bias.value) != element)
    bias.value =
        graph::Parts(builder, term.value.getLoc()).convert(bias.value, element);
  if (factor != 1)
    bias.value =
        graph::Parts(builder, term.value.getLoc()).mul(term.value, factor);
  biases.push_back(bias);
}

void AttentionTerms::add(Value term, double factor) {
  addCompact(makeCompact(builder, term), factor);
}

/// Returns true if some number of the bias may be as low as this: it is an
/// input of the model, or made from such numbers.
bool AttentionTerms::mayReach(const Compact &bias, double low) {
  SetVector<Operation *> slice;
  BackwardSliceOptions options;
  options.inclusive = true;
  if (failed(getBackwardSlice(bias.value, &slice, options)))
    return true;
  auto isInput = [](Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    auto function =
        argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp())
                 : func::FuncOp();
    return function && isa<FloatType>(getElementTypeOrSelf(value)) &&
           graph::Boundary(function).getArgument<graph::InputAttr>(
               argument.getArgNumber());
  };
  if (isInput(bias.value))
    return true;
  for (Operation *op : slice) {
    if (llvm::any_of(op->getOperands(), isInput))
      return true;
    auto constant = dyn_cast<graph::ConstantOp>(op);
    auto elements = constant ? dyn_cast<DenseElementsAttr>(constant.getValue())
                             : DenseElementsAttr();
    if (!elements || !isa<FloatType>(elements.getElementType()))
      continue;
    auto numbers = graph::Tensor::fromAttribute(elements);
    if (llvm::any_of(numbers.floats, [&](double x) { return x <= low; }))
      return true;
  }
  return false;
}

/// Returns true if the probabilities are zeroed just where this hides keys.
bool AttentionTerms::isZeroed(const Hidden &each) {
  if (!each.condition || !zeroed)
    return false;
  Compact one = makeCompact(builder, each.condition),
          other = makeCompact(builder, zeroed);
  return each.condition == zeroed ||
         (one.dims == other.dims && isSameValue(one.value, other.value));
}

bool AttentionTerms::countsNothing(const Hidden &each) {
  if (isVeryLow(each.fill) && isZeroed(each))
    return true;
  if (isNaNZeroed && std::isinf(each.fill) && each.fill < 0)
    return true;
  bool seesSome = each.others.empty() && each.band.high >= 0 &&
                  each.band.low <= shape[keyDim] - shape[queryDim] &&
                  each.band.low <= each.band.high;
  if (!isVeryLow(each.fill) || !seesSome)
    return false;
  // What a query sees may be hidden by something else; minus infinity hides
  // more than any number.
  bool isInfinite = std::isinf(each.fill);
  return llvm::none_of(hidden,
                       [&](const Hidden &other) {
                         return &other != &each && !other.others.empty() &&
                                (!isInfinite || std::isinf(other.fill));
                       }) &&
         llvm::none_of(biases, [&](const Compact &bias) {
           return mayReach(bias, isInfinite ? -INFINITY : veryLow);
         });
}

/// The condition low <= key - query <= high as [1, 1, queries, keys].
Value AttentionTerms::makeBand(Band band) {
  graph::Parts parts(builder, builder.getUnknownLoc());
  SmallVector<int64_t> square{1, 1, shape[queryDim], shape[keyDim]};
  Value query = parts.iota(square, builder.getI64Type(), queryDim),
        key = parts.iota(square, builder.getI64Type(), keyDim);
  Value distance = parts.sub(key, query);
  return parts.apply<graph::AndOp>(
      parts.compare(distance, Comparison::GE,
                    parts.splat(distance, static_cast<double>(band.low))),
      parts.compare(distance, Comparison::LE,
                    parts.splat(distance, static_cast<double>(band.high))));
}

Value AttentionTerms::joinAll(ArrayRef<Compact> parts,
                              function_ref<Value(Value, Value)> join) {
  SmallVector<bool> varies(shape.size());
  for (const Compact &part : parts)
    for (int64_t dim : part.getVarying())
      varies[dim] = true;
  SmallVector<int64_t> of;
  for (size_t dim = 0; dim < shape.size(); ++dim)
    if (varies[dim])
      of.push_back(dim);
  Value all;
  for (const Compact &part : parts) {
    Value value = part.inShape(builder, of, shape);
    all = all ? join(all, value) : value;
  }
  return all;
}

/// The condition as a mask. With `form` its band becomes attributes where they
/// can say it.
Value AttentionTerms::writeCondition(const Hidden &each,
                                     graph::AttentionForm *form) {
  int64_t queries = shape[queryDim], keys = shape[keyDim];
  SmallVector<Compact> parts = each.others;
  Band band = each.band;
  bool isLow = band.low > 1 - queries, isHigh = band.high < keys - 1;
  if (form && band.high == keys - queries && isHigh) {
    form->causal = true;
    if (isLow && band.low <= band.high)
      form->window = band.high - band.low + 1;
    isHigh = false;
    isLow &= band.low > band.high;
  }
  if (isLow || isHigh) {
    Compact inBand{makeBand(band), {}};
    llvm::append_range(inBand.dims, llvm::seq<int64_t>(0, 4));
    parts.push_back(inBand);
  }
  return joinAll(parts, [&](Value x, Value y) -> Value {
    return graph::Parts(builder, x.getLoc()).apply<graph::AndOp>(x, y);
  });
}

std::string AttentionTerms::write(graph::AttentionForm &form, Value &bias,
                                  Value &mask) {
  bool allCountNothing = llvm::all_of(
      hidden, [&](const Hidden &each) { return countsNothing(each); });
  if (!allCountNothing && llvm::any_of(hidden, [](const Hidden &each) {
        return each.mustCountNothing;
      }))
    return "a mask has a number that is added only where it shows keys";
  if (zeroed &&
      (!allCountNothing || llvm::none_of(hidden, [&](const Hidden &each) {
        return isZeroed(each);
      })))
    return "its probabilities are zeroed by another mask than its scores";
  // Only scores of minus infinity make probabilities that are no numbers.
  auto isInfinite = [](const Hidden &each) { return std::isinf(each.fill); };
  if (isNaNZeroed && (llvm::any_of(biases,
                                   [&](const Compact &bias) {
                                     return mayReach(bias, -INFINITY);
                                   }) ||
                      (llvm::any_of(hidden, isInfinite) && !allCountNothing)))
    return "it gives zeros to a query that sees nothing, and what is added to "
           "its scores may be minus infinity for all keys";
  SmallVector<Compact> added = biases;
  if (!hidden.empty() && allCountNothing) {
    Hidden all = hidden[0];
    for (const Hidden &each : ArrayRef<Hidden>(hidden).drop_front()) {
      all.band.intersect(each.band);
      llvm::append_range(all.others, each.others);
    }
    mask = writeCondition(all, &form);
  } else if (!hidden.empty()) {
    // One decides what hidden keys count, if possible one of positions; those
    // that others hide have a low bias.
    const Hidden *first = llvm::find_if(hidden, [](const Hidden &each) {
      return each.others.empty() || each.masked == Masked::Replace;
    });
    if (first == hidden.end())
      first = hidden.begin();
    static constexpr const char *lateNumbers =
        "numbers are added to scores that a mask has replaced";
    if (first->masked == Masked::Replace && first->biasesAfter > 0)
      return lateNumbers;
    for (const Hidden &each : hidden) {
      if (&each == first)
        continue;
      // A score that is replaced after a number was added to it stays replaced.
      if (each.masked == Masked::Replace)
        return "two masks replace its scores by different numbers";
      if (first->masked == Masked::Replace && &each < first)
        return lateNumbers;
      Value condition = writeCondition(each, nullptr);
      graph::Parts parts(builder, condition.getLoc());
      auto type = RankedTensorType::get(getShape(condition), element);
      Compact low{
          graph::SelectOp::create(
              builder, condition.getLoc(), type, condition,
              graph::splat(builder, condition.getLoc(), type, 0),
              graph::splat(builder, condition.getLoc(), type, each.fill)),
          {}};
      llvm::append_range(low.dims, llvm::seq<int64_t>(0, 4));
      added.push_back(low);
    }
    form.masked = first->masked;
    form.fill = first->fill;
    mask = writeCondition(*first, &form);
  }
  bias = joinAll(added, [&](Value x, Value y) {
    return graph::Parts(builder, x.getLoc()).add(x, y);
  });
  return "";
}
