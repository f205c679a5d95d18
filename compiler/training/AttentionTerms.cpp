// Reads biases and masks of attention scores.

#include "compiler/training/AttentionTerms.h"

#include <cmath>

#include "dialects/graph/Boundary.h"
#include "dialects/graph/Parts.h"
#include "mlir/Analysis/SliceAnalysis.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::getShape;
using graph::Masked;

/// No score outweighs such a number: e to a score with it is zero beside e to
/// one without it.
static constexpr double veryLow = -1e30;
static bool isVeryLow(double value) { return value <= veryLow; }

bool AttentionTerms::addHidden(Compact condition, bool isNegated, Masked masked,
                               double fill) {
  if (isNegated)
    condition = reader.negate(condition);
  Hidden each{reader.read(condition), {}, masked, fill, biases.size()};
  int64_t queries = shape[queryDim], keys = shape[keyDim];
  if (each.shows.others.empty() && each.shows.band.low <= 1 - queries &&
      each.shows.band.high >= keys - 1)
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
  Operation *op = reader.mayReadMore() ? term.value.getDefiningOp() : nullptr;
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
          !hidden.back().shows.others.empty()) {
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
        graph::Parts(builder, term.value.getLoc()).mul(bias.value, factor);
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
  bool seesSome = each.shows.others.empty() && each.shows.band.high >= 0 &&
                  each.shows.band.low <= shape[keyDim] - shape[queryDim] &&
                  each.shows.band.low <= each.shows.band.high;
  if (!isVeryLow(each.fill) || !seesSome)
    return false;
  // What a query sees may be hidden by something else; minus infinity hides
  // more than any number.
  bool isInfinite = std::isinf(each.fill);
  return llvm::none_of(hidden,
                       [&](const Hidden &other) {
                         return &other != &each &&
                                !other.shows.others.empty() &&
                                (!isInfinite || std::isinf(other.fill));
                       }) &&
         llvm::none_of(biases, [&](const Compact &bias) {
           return mayReach(bias, isInfinite ? -INFINITY : veryLow);
         });
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
  SmallVector<Compact> parts = each.shows.others;
  Band band = each.shows.band;
  bool isLow = band.low > 1 - queries, isHigh = band.high < keys - 1;
  if (form && band.high == keys - queries && isHigh) {
    form->causal = true;
    if (isLow && band.low <= band.high)
      form->window = band.high - band.low + 1;
    isHigh = false;
    isLow &= band.low > band.high;
  }
  if (isLow || isHigh) {
    Compact inBand{reader.makeBand(band), {}};
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
  if (llvm::count_if(hidden,
                     [](const Hidden &each) {
                       return each.masked == Masked::Replace;
                     }) > 1 &&
      !allCountNothing)
    return "two masks replace its scores";
  SmallVector<Compact> added = biases;
  if (!hidden.empty() && allCountNothing) {
    Hidden all = hidden[0];
    for (const Hidden &each : ArrayRef<Hidden>(hidden).drop_front()) {
      all.shows.band.intersect(each.shows.band);
      llvm::append_range(all.shows.others, each.shows.others);
    }
    mask = writeCondition(all, &form);
  } else if (!hidden.empty()) {
    // One decides what hidden keys count, if possible one of positions; those
    // that others hide have a low bias.
    const Hidden *first = llvm::find_if(hidden, [](const Hidden &each) {
      return each.masked == Masked::Replace;
    });
    if (first != hidden.end() &&
        (first != hidden.begin() || first->biasesAfter > 0))
      return "numbers are added to scores that a mask has replaced";
    if (first == hidden.end())
      first = llvm::find_if(
          hidden, [](const Hidden &each) { return each.shows.others.empty(); });
    if (first == hidden.end())
      first = hidden.begin();
    for (const Hidden &each : hidden) {
      if (&each == first)
        continue;
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
