// Splits a loss into sums of quotients, each with its own count.

#include "compiler/training/LossParts.h"

#include "dialects/graph/Symbols.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using Kind = SampleFlow::Kind;
using Terms = SmallVector<LossPart>;

/// Looks through reshapes of `value`.
static Value skipReshapes(Value value) {
  while (auto reshape = value.getDefiningOp<graph::ReshapeOp>())
    value = reshape.getInput();
  return value;
}

static bool isNumber(Value value) {
  return graph::getGlobalType(value).getNumElements() == 1;
}

static Value asScalar(graph::Parts &parts, Value value) {
  if (graph::getShape(value).empty())
    return value;
  return graph::ReshapeOp::create(parts.builder, parts.location, value,
                                  ArrayRef<int64_t>());
}

/// Applies `change` to the sum of each term.
static Terms mapSums(Terms terms, function_ref<Value(Value)> change) {
  for (LossPart &term : terms)
    term.sum = change(term.sum);
  return terms;
}

bool LossParts::dependsOnInputsAlone(Value value) {
  graph::Boundary boundary(forward);
  graph::Symbols symbols(forward);
  SmallVector<Value> work{value};
  llvm::SmallDenseSet<Value> seen;
  while (!work.empty()) {
    Value current = work.pop_back_val();
    if (!seen.insert(current).second)
      continue;
    auto argument = dyn_cast<BlockArgument>(current);
    if (!argument) {
      llvm::append_range(work, current.getDefiningOp()->getOperands());
      continue;
    }
    unsigned number = argument.getArgNumber();
    bool isInput = !!boundary.getArgument<graph::InputAttr>(number);
    if (isInput ||
        isa<IntegerType>(graph::getGlobalType(argument).getElementType()))
      continue;
    // Constant buffers count as inputs, such as the weights of classes.
    auto role = boundary.getArgument<graph::ParameterAttr>(number);
    auto stored =
        role ? symbols.lookup<graph::ParameterOp>(role.getSymbol()) : nullptr;
    if (!stored || stored.getTrainable() || boundary.getNext(number))
      return false;
  }
  return true;
}

std::optional<LossPart> LossParts::findCount(Value value) {
  auto [known, isNew] = counts.try_emplace(value);
  if (isNew)
    known->second = buildCount(value);
  return known->second;
}

std::optional<LossPart> LossParts::buildCount(Value value) {
  if (!isNumber(value) || !dependsOnInputsAlone(value))
    return std::nullopt;
  std::optional<double> least;
  Value count = skipReshapes(value);
  Type type = graph::getGlobalType(count).getElementType();
  // max(n, 1) prevents the division of an empty sum by 0.
  Value bounded = count;
  if (auto convert = bounded.getDefiningOp<graph::ConvertOp>())
    bounded = skipReshapes(convert.getInput());
  auto bound = [&](Value number, std::optional<double> other) {
    if (!other || *other <= 0 || flow.kindOf(number) != Kind::Sum)
      return;
    least = other;
    count = parts.convert(asScalar(parts, number), type);
  };
  if (auto most = bounded.getDefiningOp<graph::MaxOp>()) {
    bound(most.getLhs(), graph::getSplat(most.getRhs()));
    bound(most.getRhs(), graph::getSplat(most.getLhs()));
  } else if (auto select = bounded.getDefiningOp<graph::SelectOp>()) {
    // n < 1 ? 1 : n, the form that clamp is exported in.
    auto compare = select.getCondition().getDefiningOp<graph::CompareOp>();
    if (compare &&
        (compare.getComparison() == graph::Comparison::LT ||
         compare.getComparison() == graph::Comparison::LE) &&
        compare.getLhs() == select.getOnFalse() &&
        graph::getSplat(compare.getRhs()) ==
            graph::getSplat(select.getOnTrue()))
      bound(select.getOnFalse(), graph::getSplat(select.getOnTrue()));
  }
  // n + 1e-8: the small number is added once per microbatch.
  Value sum = count;
  if (auto add = sum.getDefiningOp<graph::AddOp>())
    for (auto [rest, other] : {std::pair(add.getLhs(), add.getRhs()),
                               std::pair(add.getRhs(), add.getLhs())})
      if (std::optional<double> much = graph::getSplat(other);
          much && std::abs(*much) < 1e-3)
        sum = rest;
  if (flow.kindOf(sum) != Kind::Sum && flow.kindOf(sum) != Kind::Unknown)
    return std::nullopt;
  return LossPart{{}, asScalar(parts, count), least};
}

Value LossParts::withoutScales(Value value, SmallVectorImpl<Scale> &scales) {
  // The scalar that `each` broadcasts, if it is computed from samples.
  auto findNumber = [&](Value each) -> Value {
    while (true) {
      if (isNumber(each))
        break;
      Operation *op = each.getDefiningOp();
      if (!op || !isa<graph::BroadcastOp, graph::ReshapeOp>(op))
        return {};
      each = op->getOperand(0);
    }
    Kind kind = flow.kindOf(each);
    return kind == Kind::Sum || kind == Kind::Joint ? asScalar(parts, each)
                                                    : Value();
  };
  Operation *op = value.getDefiningOp();
  if (!op || !isa<FloatType>(graph::getGlobalType(value).getElementType()))
    return value;
  if (auto div = dyn_cast<graph::DivOp>(op))
    if (Value number = findNumber(div.getRhs())) {
      scales.push_back({number, /*divides=*/true});
      return withoutScales(div.getLhs(), scales);
    }
  if (auto mul = dyn_cast<graph::MulOp>(op))
    for (auto [rest, other] : {std::pair(mul.getLhs(), mul.getRhs()),
                               std::pair(mul.getRhs(), mul.getLhs())})
      if (Value number = findNumber(other)) {
        scales.push_back({number, /*divides=*/false});
        return withoutScales(rest, scales);
      }
  // Ops that commute with a scalar factor.
  bool isLinear = isa<graph::NegOp, graph::ReshapeOp, graph::TransposeOp>(op);
  auto reduce = dyn_cast<graph::ReduceOp>(op);
  isLinear |= reduce && reduce.getKind() == sharding::ReductionKind::Sum;
  auto mul = dyn_cast<graph::MulOp>(op);
  auto div = dyn_cast<graph::DivOp>(op);
  if (!isLinear && !mul && !div)
    return value;
  SmallVector<Value> operands(op->getOperands());
  for (size_t i = 0, n = div ? 1 : operands.size(); i < n; ++i)
    operands[i] = withoutScales(operands[i], scales);
  if (operands == SmallVector<Value>(op->getOperands()))
    return value;
  Operation *rest = parts.builder.clone(*op);
  rest->setOperands(operands);
  return rest->getResult(0);
}

Terms LossParts::asJoint(Value value) {
  if (Operation *op = skipReshapes(value).getDefiningOp())
    joint.push_back(op);
  return {{value, {}, std::nullopt}};
}

Terms LossParts::expandQuotient(graph::DivOp op) {
  Value divisor = skipReshapes(op.getRhs());
  if (flow.kindOf(divisor) == Kind::Free)
    return mapSums(expand(op.getLhs()), [&](Value sum) {
      return parts.div(sum, asScalar(parts, divisor));
    });
  std::optional<LossPart> count = findCount(divisor);
  size_t before = joint.size();
  Terms terms;
  bool fits = count.has_value();
  if (fits) {
    terms = expand(op.getLhs());
    for (LossPart &term : terms) {
      Kind kind = flow.kindOf(term.sum);
      fits &= !term.count && (kind == Kind::Sum || kind == Kind::Unknown);
      term.count = count->count;
      term.least = count->least;
    }
  }
  if (fits)
    return terms;
  joint.resize(before);
  return asJoint(op);
}

std::optional<Terms> LossParts::expandSum(graph::ReduceOp op) {
  if (op.getKind() != sharding::ReductionKind::Sum)
    return std::nullopt;
  // A scalar that was applied to each element: sum(x / n) is sum(x) / n.
  SmallVector<Scale> scales;
  Value rest = withoutScales(op, scales);
  if (!scales.empty()) {
    Value whole = asScalar(parts, rest);
    for (const Scale &scale : scales)
      whole = scale.divides ? parts.div(whole, scale.number)
                            : parts.mul(whole, scale.number);
    return expand(whole);
  }
  // Scalars that were concatenated.
  auto concat = op.getInput().getDefiningOp<graph::ConcatOp>();
  if (!concat || !llvm::all_of(concat.getInputs(), isNumber))
    return std::nullopt;
  Terms terms;
  for (Value number : concat.getInputs())
    llvm::append_range(terms, expand(number));
  return terms;
}

Terms LossParts::expand(Value value) {
  value = asScalar(parts, skipReshapes(value));
  Operation *op = skipReshapes(value).getDefiningOp();
  Kind kind = flow.kindOf(value);
  Terms itself{{value, {}, std::nullopt}};
  if (!op || kind == Kind::Free)
    return itself;
  if (auto reduce = dyn_cast<graph::ReduceOp>(op))
    if (std::optional<Terms> terms = expandSum(reduce))
      return *std::move(terms);
  if (kind == Kind::Sum)
    return itself;
  if (auto add = dyn_cast<graph::AddOp>(op)) {
    Terms terms = expand(add.getLhs());
    llvm::append_range(terms, expand(add.getRhs()));
    return terms;
  }
  if (auto sub = dyn_cast<graph::SubOp>(op)) {
    Terms terms = expand(sub.getLhs());
    llvm::append_range(terms, mapSums(expand(sub.getRhs()), [&](Value sum) {
                         return parts.apply<graph::NegOp>(sum);
                       }));
    return terms;
  }
  if (auto neg = dyn_cast<graph::NegOp>(op))
    return mapSums(expand(neg.getInput()),
                   [&](Value sum) { return parts.apply<graph::NegOp>(sum); });
  if (auto convert = dyn_cast<graph::ConvertOp>(op);
      convert &&
      isa<FloatType>(graph::getGlobalType(convert.getInput()).getElementType()))
    return mapSums(expand(convert.getInput()), [&](Value sum) {
      return parts.convert(sum, graph::getGlobalType(value).getElementType());
    });
  if (auto mul = dyn_cast<graph::MulOp>(op))
    for (auto [number, rest] : {std::pair(mul.getLhs(), mul.getRhs()),
                                std::pair(mul.getRhs(), mul.getLhs())})
      if (flow.kindOf(number) == Kind::Free)
        return mapSums(expand(rest), [&](Value sum) {
          return parts.mul(sum, asScalar(parts, number));
        });
  if (auto div = dyn_cast<graph::DivOp>(op))
    return expandQuotient(div);
  return kind == Kind::Unknown ? itself : asJoint(value);
}

SmallVector<LossPart> LossParts::split(Value scalar) {
  SmallVector<LossPart> result;
  LossPart rest;
  auto add = [&](Value &sum, Value term) {
    sum = sum ? parts.add(sum, term) : term;
  };
  for (LossPart &term : expand(scalar)) {
    LossPart *same = llvm::find_if(result, [&](const LossPart &part) {
      return part.count == term.count && part.least == term.least;
    });
    if (!term.count)
      add(rest.sum, term.sum);
    else if (same == result.end())
      result.push_back(term);
    else
      add(same->sum, term.sum);
  }
  if (rest.sum)
    result.push_back(rest);
  return result;
}
