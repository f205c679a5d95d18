// Finds attention in parts.

#include "compiler/training/RaiseComposites.h"

#include "compiler/training/Forward.h"
#include "compiler/training/ReshapeMotion.h"
#include "dialects/graph/Parts.h"
#include "dialects/graph/Provenance.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::Comparison;
using graph::getShape;

namespace {

/// What the scores of an attention are made of.
struct Scores {
  Value query, key;
  double scale = 1;
  Value mask; // booleans that broadcast to the scores, or null
  /// The score of a masked key.
  double fill = 0;
  /// Whether each query surely sees a key.
  bool seesSome = true;
  bool causal = false;
};

} // namespace

/// `value` without constant factors, which `scale` takes.
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

/// A score that makes a probability zero.
static bool isMasking(double value) { return value <= -1e30; }

namespace {

/// A constant repeated along the dims of a value that `dims` lacks.
struct Repeated {
  graph::Tensor tensor;
  SmallVector<int64_t> dims;
};

} // namespace

/// Reads a constant through broadcasts and reshapes that keep its dims.
static std::optional<Repeated> readRepeated(Value value) {
  Operation *op = value.getDefiningOp();
  if (auto constant = dyn_cast_or_null<graph::ConstantOp>(op)) {
    auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
    if (!elements)
      return std::nullopt;
    if (elements.isSplat())
      elements = elements.resizeSplat(
          RankedTensorType::get({}, elements.getElementType()));
    Repeated result{graph::Tensor::fromAttribute(elements), {}};
    int64_t rank = result.tensor.getRank();
    llvm::append_range(result.dims, llvm::seq<int64_t>(0, rank));
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
  for (auto [size, dim] : llvm::zip_equal(result->tensor.shape, result->dims)) {
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
  result->tensor = result->tensor.reshaped(shape);
  result->dims = dims;
  return result;
}

/// The mask as [queries, keys] where it is a constant repeated over the other
/// dims; nullopt where it is not.
static std::optional<graph::Tensor> readConstantMask(Value mask) {
  std::optional<Repeated> constant = readRepeated(mask);
  if (!constant)
    return std::nullopt;
  ArrayRef<int64_t> shape = getShape(mask);
  int64_t rank = shape.size();
  SmallVector<int64_t> strides = graph::getStrides(constant->tensor.shape);
  int64_t rowStride = 0, columnStride = 0;
  for (auto [i, dim] : llvm::enumerate(constant->dims)) {
    if (constant->tensor.shape[i] == 1)
      continue;
    if (dim < rank - 2)
      return std::nullopt;
    (dim == rank - 2 ? rowStride : columnStride) = strides[i];
  }
  graph::Tensor result(constant->tensor.elementType, shape.take_back(2));
  int64_t to = 0;
  for (int64_t row = 0; row < shape[rank - 2]; ++row)
    for (int64_t column = 0; column < shape[rank - 1]; ++column)
      result.copy(to++, constant->tensor,
                  row * rowStride + column * columnStride);
  return result;
}

/// Keeps what `visible` (0 or not) says of a constant mask: nothing where all
/// is seen, `causal` where it is that, else a constant [queries, keys].
static void setConstantMask(OpBuilder &builder, Location location,
                            const graph::Tensor &visible, Scores &scores) {
  int64_t queries = visible.shape[0], keys = visible.shape[1];
  bool all = true, causal = true;
  for (int64_t query = 0; query < queries; ++query) {
    bool some = false;
    for (int64_t key = 0; key < keys; ++key) {
      bool sees = visible.integers[query * keys + key];
      some |= sees;
      all &= sees;
      causal &= sees == (key <= query + keys - queries);
    }
    scores.seesSome &= some;
  }
  scores.causal = causal && !all;
  if (!all && !causal)
    scores.mask =
        graph::ConstantOp::create(builder, location, visible.toAttribute());
}

/// The booleans that an additive mask of zeros and `fill` stands for; null
/// where it is another. They are repeated as the mask was.
static Value readAdditiveMask(OpBuilder &builder, Value mask, double &fill) {
  Operation *op = mask.getDefiningOp();
  auto type = RankedTensorType::get(getShape(mask), builder.getI1Type());
  if (auto select = dyn_cast_or_null<graph::SelectOp>(op)) {
    fill = graph::getSplat(select.getOnFalse()).value_or(0);
    return graph::getSplat(select.getOnTrue()) == 0.0 && isMasking(fill)
               ? select.getCondition()
               : Value();
  }
  if (isa_and_nonnull<graph::BroadcastOp, graph::ReshapeOp>(op)) {
    Value inner = readAdditiveMask(builder, op->getOperand(0), fill);
    if (!inner)
      return {};
    OperationState state(op->getLoc(), op->getName(), inner, type,
                         op->getAttrs());
    return builder.create(state)->getResult(0);
  }
  auto constant = dyn_cast_or_null<graph::ConstantOp>(op);
  if (!constant || !isa<DenseElementsAttr>(constant.getValue()))
    return {};
  auto numbers = graph::Tensor::fromAttribute(
      cast<DenseElementsAttr>(constant.getValue()));
  graph::Tensor visible(builder.getI1Type(), numbers.shape);
  for (auto [flag, number] :
       llvm::zip_equal(visible.integers, numbers.floats)) {
    if (number != 0 && !isMasking(number))
      return {};
    flag = number == 0;
    fill = std::min(fill, number);
  }
  return graph::ConstantOp::create(builder, op->getLoc(),
                                   visible.toAttribute());
}

static void setMask(OpBuilder &builder, Value mask, Scores &scores) {
  if (std::optional<graph::Tensor> visible = readConstantMask(mask))
    return setConstantMask(builder, mask.getLoc(), *visible, scores);
  scores.seesSome = false;
  scores.mask = mask;
  auto broadcast = mask.getDefiningOp<graph::BroadcastOp>();
  if (broadcast && broadcast.getDims() == ArrayRef<int64_t>({2, 3}))
    scores.mask = broadcast.getInput();
}

/// Reads the operand of the softmax: the scaled product of query and key,
/// masked by numbers so low that a masked score cannot matter.
static std::optional<Scores> readScores(OpBuilder &builder, Value value) {
  Scores scores;
  Location location = value.getLoc();
  Value inner = value;
  if (auto select = value.getDefiningOp<graph::SelectOp>()) {
    scores.fill = graph::getSplat(select.getOnFalse()).value_or(0);
    if (!isMasking(scores.fill))
      return std::nullopt;
    setMask(builder, select.getCondition(), scores);
    inner = select.getOnTrue();
  } else if (auto add = value.getDefiningOp<graph::AddOp>()) {
    for (unsigned i : {1, 0}) {
      Value mask = readAdditiveMask(builder, add->getOperand(i), scores.fill);
      if (!mask)
        continue;
      setMask(builder, mask, scores);
      inner = add->getOperand(1 - i);
      break;
    }
  }
  inner = withoutFactors(inner, scores.scale);
  auto matmul = inner.getDefiningOp<graph::MatmulOp>();
  SmallVector<int64_t> batch{0, 1};
  if (!matmul || matmul.getLhsBatch() != ArrayRef<int64_t>(batch) ||
      matmul.getRhsBatch() != ArrayRef<int64_t>(batch) ||
      matmul.getLhsContract() != ArrayRef<int64_t>(3) ||
      matmul.getLhsFree().size() != 1 || matmul.getRhsFree().size() != 1)
    return std::nullopt;
  scores.query = withoutFactors(matmul.getLhs(), scores.scale);
  scores.key = withoutFactors(matmul.getRhs(), scores.scale);
  if (matmul.getRhsContract() == ArrayRef<int64_t>(3))
    return scores;
  // Transposed: [batch, heads, width, keys].
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

/// softmax(scores) v, with or without the exporter's select that turns the NaN
/// of a query that sees nothing into zero.
bool training::raiseAttention(graph::MatmulOp matmul) {
  SmallVector<int64_t> batch{0, 1};
  if (matmul.getLhsBatch() != ArrayRef<int64_t>(batch) ||
      matmul.getRhsBatch() != ArrayRef<int64_t>(batch) ||
      matmul.getLhsContract() != ArrayRef<int64_t>(3) ||
      matmul.getRhsContract() != ArrayRef<int64_t>(2) ||
      matmul.getLhsFree().size() != 1 || matmul.getRhsFree().size() != 1)
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
  std::optional<Scores> scores = readScores(builder, softmax.getInput());
  // A query that sees no key gives zero; parts give that only with -inf and the
  // select, and a mean or NaN otherwise.
  if (!scores || (!scores->seesSome && !(zeroes && std::isinf(scores->fill))))
    return false;
  auto attention = graph::AttentionOp::create(
      builder, matmul.getLoc(), scores->query, scores->key, matmul.getRhs(),
      scores->mask, scores->scale, scores->causal);
  graph::copyProvenance(matmul, attention);
  matmul.replaceAllUsesWith(attention.getResult());
  return true;
}
