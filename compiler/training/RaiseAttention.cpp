// Raises attention from its ops.

#include "compiler/training/RaiseComposites.h"

#include "compiler/training/ReshapeMotion.h"
#include "dialects/graph/Forward.h"
#include "dialects/graph/Parts.h"
#include "dialects/graph/Provenance.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::Comparison;
using graph::getShape;

namespace {

/// The attributes and operands of an attention, as read from its scores.
struct Scores {
  Value query, key;
  double scale = 1;
  Value mask; // booleans that broadcast to the scores, or null
  /// The score of a masked key.
  double fill = 0;
  /// True if each query is known to see a key.
  bool seesSome = true;
  bool causal = false;
};

} // namespace

/// Strips constant factors from `value` and multiplies `scale` by them.
static Value withoutFactors(Value value, double &scale) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<graph::MulOp, graph::DivOp>(op))
      break;
    Value rest = op->getOperand(0);
    std::optional<double> number = graph::getSplat(op->getOperand(1));
    if (!number && isa<graph::MulOp>(op)) {
      rest = op->getOperand(1);
      number = graph::getSplat(op->getOperand(0));
    }
    if (!number)
      break;
    scale *= isa<graph::MulOp>(op) ? *number : 1 / *number;
    value = rest;
  }
  return value;
}

/// Returns true for a score whose probability is zero.
static bool isMasking(double value) { return value <= -1e30; }

namespace {

/// A constant that is broadcast along the dims of a value that are not in
/// `dims`.
struct Repeated {
  DenseElementsAttr elements;
  SmallVector<int64_t> shape; // of the elements; dims of size 1 may be dropped
  SmallVector<int64_t> dims;
};

} // namespace

/// Reads a constant through broadcasts, and reshapes that keep its dims.
static std::optional<Repeated> readRepeated(Value value) {
  Operation *op = value.getDefiningOp();
  if (auto constant = dyn_cast_or_null<graph::ConstantOp>(op)) {
    auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
    if (!elements)
      return std::nullopt;
    if (elements.isSplat())
      elements = elements.resizeSplat(
          RankedTensorType::get({}, elements.getElementType()));
    Repeated result{
        elements, SmallVector<int64_t>(elements.getType().getShape()), {}};
    llvm::append_range(result.dims, llvm::seq<int64_t>(0, result.shape.size()));
    return result;
  }
  if (!isa_and_nonnull<graph::BroadcastOp, graph::ReshapeOp>(op))
    return std::nullopt;
  std::optional<Repeated> result = readRepeated(op->getOperand(0));
  if (!result)
    return std::nullopt;
  if (auto broadcast = dyn_cast<graph::BroadcastOp>(op)) {
    for (int64_t &dim : result->dims)
      dim = broadcast.getDims()[dim];
    return result;
  }
  auto groups = getGroups(getShape(op->getOperand(0)), getShape(value));
  SmallVector<int64_t> shape, dims;
  for (auto [size, dim] : llvm::zip_equal(result->shape, result->dims)) {
    if (size == 1)
      continue;
    const auto *group = llvm::find_if(groups, [&](const ReshapeGroup &each) {
      return llvm::is_contained(each.source, dim);
    });
    if (group->source.size() != 1 || group->result.size() != 1)
      return std::nullopt;
    shape.push_back(size);
    dims.push_back(group->result[0]);
  }
  result->shape = shape;
  result->dims = dims;
  return result;
}

/// Reads a mask from `elements`, with these strides from query to query and key
/// to key.
static KnownMasks::Visible readVisible(DenseElementsAttr elements,
                                       int64_t rowStride, int64_t columnStride,
                                       int64_t queries, int64_t keys) {
  auto numbers = graph::Tensor::fromAttribute(elements);
  graph::Tensor visible(numbers.elementType, {queries, keys});
  KnownMasks::Visible result;
  for (int64_t query = 0; query < queries; ++query) {
    bool some = false;
    for (int64_t key = 0; key < keys; ++key) {
      int64_t to = query * keys + key;
      visible.copy(to, numbers, query * rowStride + key * columnStride);
      bool sees = visible.integers[to];
      some |= sees;
      result.all &= sees;
      result.causal &= sees == (key <= query + keys - queries);
    }
    result.some &= some;
  }
  if (!result.all && !result.causal)
    result.elements = visible.toAttribute();
  return result;
}

/// Reads a mask that is a constant broadcast over all dims but queries and
/// keys; null for other masks.
static const KnownMasks::Visible *readConstantMask(Value mask,
                                                   KnownMasks &known) {
  std::optional<Repeated> constant = readRepeated(mask);
  if (!constant)
    return nullptr;
  ArrayRef<int64_t> shape = getShape(mask);
  int64_t rank = shape.size(), queries = shape[rank - 2],
          keys = shape[rank - 1];
  SmallVector<int64_t> strides = graph::getStrides(constant->shape);
  int64_t rowStride = 0, columnStride = 0;
  for (auto [i, dim] : llvm::enumerate(constant->dims)) {
    if (constant->shape[i] == 1)
      continue;
    if (dim < rank - 2)
      return nullptr;
    (dim == rank - 2 ? rowStride : columnStride) = strides[i];
  }
  auto [entry, isNew] =
      known.visible.try_emplace({constant->elements.getAsOpaquePointer(),
                                 rowStride, columnStride, queries, keys});
  if (isNew)
    entry->second =
        readVisible(constant->elements, rowStride, columnStride, queries, keys);
  return &entry->second;
}

/// Reads an additive mask from constant numbers.
static KnownMasks::Additive readAdditive(OpBuilder &builder,
                                         DenseElementsAttr elements) {
  auto numbers = graph::Tensor::fromAttribute(elements);
  graph::Tensor visible(builder.getI1Type(), numbers.shape);
  KnownMasks::Additive result;
  for (auto [flag, number] :
       llvm::zip_equal(visible.integers, numbers.floats)) {
    if (number != 0 && !isMasking(number))
      return {};
    flag = number == 0;
    result.fill = std::min(result.fill, number);
  }
  result.visible = visible.toAttribute();
  return result;
}

/// Returns the boolean mask for an additive mask of zeros and `fill`, with the
/// same broadcasts; null if it is no such mask.
static Value readAdditiveMask(OpBuilder &builder, Value mask, double &fill,
                              KnownMasks &known) {
  Operation *op = mask.getDefiningOp();
  auto type = RankedTensorType::get(getShape(mask), builder.getI1Type());
  if (auto select = dyn_cast_or_null<graph::SelectOp>(op)) {
    fill = graph::getSplat(select.getOnFalse()).value_or(0);
    return graph::getSplat(select.getOnTrue()) == 0.0 && isMasking(fill)
               ? select.getCondition()
               : Value();
  }
  if (isa_and_nonnull<graph::BroadcastOp, graph::ReshapeOp>(op)) {
    Value inner = readAdditiveMask(builder, op->getOperand(0), fill, known);
    if (!inner)
      return {};
    OperationState state(op->getLoc(), op->getName(), inner, type,
                         op->getAttrs());
    return builder.create(state)->getResult(0);
  }
  auto constant = dyn_cast_or_null<graph::ConstantOp>(op);
  if (!constant || !isa<DenseElementsAttr>(constant.getValue()))
    return {};
  auto elements = cast<DenseElementsAttr>(constant.getValue());
  auto [entry, isNew] = known.additive.try_emplace(elements);
  if (isNew)
    entry->second = readAdditive(builder, elements);
  if (!entry->second.visible)
    return {};
  fill = std::min(fill, entry->second.fill);
  return graph::ConstantOp::create(builder, op->getLoc(),
                                   entry->second.visible);
}

/// Stores a mask in `scores`: nothing if all keys are visible, `causal` if it
/// is the causal mask, else a mask (a constant one as [queries, keys]).
static void setMask(OpBuilder &builder, Value mask, Scores &scores,
                    KnownMasks &known) {
  if (const KnownMasks::Visible *visible = readConstantMask(mask, known)) {
    scores.seesSome = visible->some;
    scores.causal = visible->causal && !visible->all;
    if (visible->elements)
      scores.mask =
          graph::ConstantOp::create(builder, mask.getLoc(), visible->elements);
    return;
  }
  scores.seesSome = false;
  scores.mask = mask;
  auto broadcast = mask.getDefiningOp<graph::BroadcastOp>();
  if (broadcast && broadcast.getDims() == ArrayRef<int64_t>({2, 3}))
    scores.mask = broadcast.getInput();
}

/// Returns true if each head of [batch, heads, .., ..] has its own right side.
static bool isOfHeads(graph::MatmulOp matmul) {
  SmallVector<int64_t> batch{0, 1};
  return matmul.getLhsBatch() == ArrayRef<int64_t>(batch) &&
         matmul.getRhsBatch() == ArrayRef<int64_t>(batch) &&
         matmul.getLhsFree().size() == 1;
}

/// Returns true if all heads of [batch, heads, .., ..] share one right side:
/// the simplified form of a product with [batch, 1, .., ..].
static bool isShared(graph::MatmulOp matmul) {
  return getShape(matmul.getLhs()).size() == 4 &&
         getShape(matmul.getRhs()).size() == 3 &&
         matmul.getLhsBatch() == ArrayRef<int64_t>(0) &&
         matmul.getRhsBatch() == ArrayRef<int64_t>(0) &&
         matmul.getLhsFree() == ArrayRef<int64_t>({1, 2});
}

/// Broadcasts [batch, length, width] to the heads of `matmul`'s left side.
static Value repeatShared(OpBuilder &builder, graph::MatmulOp matmul,
                          Value shared) {
  SmallVector<int64_t> shape(getShape(shared));
  shape.insert(shape.begin() + 1, getShape(matmul.getLhs())[1]);
  return graph::BroadcastOp::create(builder, matmul.getLoc(), shared, shape,
                                    ArrayRef<int64_t>{0, 2, 3});
}

/// The shared right side of a product as [batch, heads, keys, width], without
/// constant factors, by which `scale` is multiplied.
static Value readSharedKey(OpBuilder &builder, graph::MatmulOp matmul,
                           double &scale) {
  Location location = matmul.getLoc();
  bool isTransposed = matmul.getRhsContract() == ArrayRef<int64_t>(1);
  SmallVector<int64_t> shape(getShape(matmul.getRhs()));
  if (isTransposed)
    std::swap(shape[1], shape[2]);
  auto reshaped = [&](Value value) -> Value {
    return getShape(value) == ArrayRef<int64_t>(shape)
               ? value
               : graph::ReshapeOp::create(builder, location, value, shape)
                     .getResult();
  };
  // Exporters put factors and transposes between reshapes to [batch, 1, ..].
  Value key = matmul.getRhs();
  for (Value before; before != key;) {
    before = key;
    key = withoutFactors(graph::withoutUnitDims(key), scale);
  }
  if (!isTransposed)
    return repeatShared(builder, matmul, reshaped(key));
  auto transpose = key.getDefiningOp<graph::TransposeOp>();
  auto isOf = [&](ArrayRef<int64_t> order, ArrayRef<int64_t> input) {
    return transpose && transpose.getPermutation() == order &&
           getShape(transpose.getInput()) == input;
  };
  int64_t batch = shape[0], length = shape[1], width = shape[2];
  if (isOf({0, 2, 1}, {batch, length, width}) ||
      isOf({0, 1, 3, 2}, {batch, 1, length, width}))
    key = withoutFactors(transpose.getInput(), scale);
  else
    key = graph::TransposeOp::create(
        builder, location,
        graph::ReshapeOp::create(builder, location, key,
                                 ArrayRef<int64_t>{batch, width, length}),
        ArrayRef<int64_t>{0, 2, 1});
  return repeatShared(builder, matmul, reshaped(key));
}

/// Reads the operand of the softmax: the scaled product of query and key,
/// masked with numbers so low that masked scores do not matter.
static std::optional<Scores> readScores(OpBuilder &builder, Value value,
                                        KnownMasks &known) {
  Scores scores;
  Location location = value.getLoc();
  Value inner = value;
  if (auto select = value.getDefiningOp<graph::SelectOp>()) {
    scores.fill = graph::getSplat(select.getOnFalse()).value_or(0);
    if (!isMasking(scores.fill))
      return std::nullopt;
    setMask(builder, select.getCondition(), scores, known);
    inner = select.getOnTrue();
  } else if (auto add = value.getDefiningOp<graph::AddOp>()) {
    for (unsigned i : {1, 0}) {
      Value mask =
          readAdditiveMask(builder, add->getOperand(i), scores.fill, known);
      if (!mask)
        continue;
      setMask(builder, mask, scores, known);
      inner = add->getOperand(1 - i);
      break;
    }
  }
  inner = withoutFactors(inner, scores.scale);
  auto matmul = inner.getDefiningOp<graph::MatmulOp>();
  if (!matmul || matmul.getLhsContract() != ArrayRef<int64_t>(3) ||
      matmul.getRhsContract().size() != 1 || matmul.getRhsFree().size() != 1)
    return std::nullopt;
  scores.query = withoutFactors(matmul.getLhs(), scores.scale);
  if (isShared(matmul)) {
    scores.key = readSharedKey(builder, matmul, scores.scale);
    return scores;
  }
  if (!isOfHeads(matmul))
    return std::nullopt;
  scores.key = withoutFactors(matmul.getRhs(), scores.scale);
  if (matmul.getRhsContract() == ArrayRef<int64_t>(3))
    return scores;
  // The key is transposed: [batch, heads, width, keys].
  SmallVector<int64_t> order{0, 1, 3, 2};
  auto transpose = scores.key.getDefiningOp<graph::TransposeOp>();
  if (!transpose || transpose.getPermutation() != ArrayRef<int64_t>(order)) {
    scores.key =
        graph::TransposeOp::create(builder, location, scores.key, order);
    return scores;
  }
  scores.key = withoutFactors(transpose.getInput(), scores.scale);
  return scores;
}

/// Raises softmax(scores) v, with or without the exporter's select that
/// replaces the NaN of a query that sees no key by zero.
bool training::raiseAttention(graph::MatmulOp matmul, KnownMasks &known) {
  bool shared = isShared(matmul);
  if ((!shared && !isOfHeads(matmul)) ||
      matmul.getLhsContract() != ArrayRef<int64_t>(3) ||
      matmul.getRhsContract() != ArrayRef<int64_t>(shared ? 1 : 2) ||
      matmul.getRhsFree().size() != 1)
    return false;
  Value probabilities = matmul.getLhs();
  bool zeroes = false;
  if (auto select = probabilities.getDefiningOp<graph::SelectOp>()) {
    auto isNaN = select.getCondition().getDefiningOp<graph::CompareOp>();
    if (!isNaN || isNaN.getComparison() != Comparison::NE ||
        isNaN.getLhs() != isNaN.getRhs() ||
        isNaN.getLhs() != select.getOnFalse() ||
        graph::getSplat(select.getOnTrue()) != 0.0)
      return false;
    probabilities = select.getOnFalse();
    zeroes = true;
  }
  auto softmax = probabilities.getDefiningOp<graph::SoftmaxOp>();
  if (!softmax || softmax.getDim() != 3)
    return false;
  OpBuilder builder(matmul);
  std::optional<Scores> scores = readScores(builder, softmax.getInput(), known);
  // In attention a query that sees no key gives zero. The exported ops give
  // zero only with -inf and the select, otherwise a mean or NaN.
  if (!scores || (!scores->seesSome && !(zeroes && std::isinf(scores->fill))))
    return false;
  Value value =
      shared ? repeatShared(builder, matmul, matmul.getRhs()) : matmul.getRhs();
  auto attention = graph::AttentionOp::create(
      builder, matmul.getLoc(), scores->query, scores->key, value, scores->mask,
      scores->scale, scores->causal);
  graph::copyProvenance(matmul, attention);
  matmul.replaceAllUsesWith(attention.getResult());
  return true;
}
