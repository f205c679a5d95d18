// Reads which keys a condition shows each query: by positions, or otherwise.

#include "compiler/training/AttentionConditions.h"

#include <cmath>

#include "dialects/graph/ElementTypes.h"
#include "dialects/graph/Parts.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::Comparison;
using graph::getShape;

/// Reads numbers that are linear in the positions.
std::optional<Linear> ConditionReader::readLinear(const Compact &compact) {
  if (std::optional<double> splat = graph::getSplat(compact.value))
    return Linear{0, 0, *splat};
  Operation *op = compact.value.getDefiningOp();
  // Few positions are numbers of bf16 or f16.
  if (!op || graph::isNarrow(getElementTypeOrSelf(compact.value)))
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
           graph::ConvertOp>(op) ||
      !mayReadMore())
    return std::nullopt;
  // A conversion from a float may cut off a part, and one to a boolean does.
  Type from = getElementTypeOrSelf(op->getOperand(0)),
       to = getElementTypeOrSelf(compact.value);
  if (to.isInteger(1) || (isa<FloatType>(from) && isa<IntegerType>(to)))
    return std::nullopt;
  std::optional<Linear> left = readLinear(makeCompact(builder, compact, 0));
  if (!left || isa<graph::ConvertOp>(op))
    return left;
  if (isa<graph::NegOp>(op))
    return Linear{-left->query, -left->key, -left->constant};
  std::optional<Linear> right = readLinear(makeCompact(builder, compact, 1));
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

std::optional<Band> ConditionReader::readConstant(const Compact &constant) {
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

std::optional<Band> ConditionReader::readBand(const Compact &condition) {
  if (std::optional<Band> band = readConstant(condition))
    return band;
  auto compare = condition.value.getDefiningOp<graph::CompareOp>();
  if (!compare)
    return std::nullopt;
  auto left = readLinear(makeCompact(builder, condition, 0)),
       right = readLinear(makeCompact(builder, condition, 1));
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
Compact ConditionReader::negate(const Compact &condition) {
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

void ConditionReader::read(const Compact &condition, Shown &shown) {
  Operation *op = condition.value.getDefiningOp();
  if (!mayReadMore()) {
    shown.others.push_back(condition);
    return;
  }
  if (isa_and_nonnull<graph::NotOp>(op)) {
    Compact inner = makeCompact(builder, condition, 0);
    if (isa_and_nonnull<graph::OrOp>(inner.value.getDefiningOp())) {
      read(negate(makeCompact(builder, inner, 0)), shown);
      return read(negate(makeCompact(builder, inner, 1)), shown);
    }
    Compact opposite = negate(inner);
    if (!isa_and_nonnull<graph::NotOp>(opposite.value.getDefiningOp()))
      return read(opposite, shown);
  }
  if (isa_and_nonnull<graph::AndOp>(op)) {
    read(makeCompact(builder, condition, 0), shown);
    read(makeCompact(builder, condition, 1), shown);
  } else if (std::optional<Band> band = readBand(condition)) {
    shown.band.intersect(*band);
  } else if (graph::getSplat(condition.value).value_or(0) == 0) {
    shown.others.push_back(condition);
  }
}

/// The condition low <= key - query <= high as [1, 1, queries, keys].
Value ConditionReader::makeBand(Band band) {
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
