// Finds composites in parts: gelu, layer_norm, attention.

#include <map>

#include "compiler/training/Forward.h"
#include "compiler/training/Passes.h"
#include "compiler/training/ReshapeMotion.h"
#include "dialects/graph/Parts.h"

namespace polyrank::training {
#define GEN_PASS_DEF_RAISECOMPOSITESPASS
#include "compiler/training/Passes.h.inc"
} // namespace polyrank::training

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::Comparison;
using graph::getGlobalType;
using graph::getShape;
using graph::Parts;
using shard::ReductionKind;

/// Equal up to the rounding of a constant to fp32.
static bool isNear(double left, double right) {
  return std::fabs(left - right) <= 1e-6 * std::fabs(right);
}

// gelu

namespace {

/// A polynomial in two values: coefficients by their exponents.
using Polynomial = std::map<std::pair<int, int>, double>;

/// Reads values as polynomials in `x` and `t`.
class PolynomialReader {
public:
  PolynomialReader(Value x, Value t) : x(x), t(t) {}

  std::optional<Polynomial> read(Value value, int depth = 8) const {
    if (value == x)
      return Polynomial{{{1, 0}, 1.0}};
    if (value == t)
      return Polynomial{{{0, 1}, 1.0}};
    if (std::optional<double> number = getSplat(value))
      return Polynomial{{{0, 0}, *number}};
    Operation *op = value.getDefiningOp();
    if (!op || depth == 0)
      return std::nullopt;
    auto operand = [&](unsigned i) {
      return read(op->getOperand(i), depth - 1);
    };
    if (isa<graph::NegOp>(op))
      return combine(operand(0), Polynomial{{{0, 0}, -1.0}}, multiply);
    if (!isa<graph::AddOp, graph::SubOp, graph::MulOp, graph::DivOp,
             graph::PowOp>(op))
      return std::nullopt;
    std::optional<Polynomial> left = operand(0), right = operand(1);
    if (isa<graph::AddOp>(op))
      return combine(left, right, add);
    if (isa<graph::SubOp>(op))
      return combine(left, combine(right, Polynomial{{{0, 0}, -1.0}}, multiply),
                     add);
    if (isa<graph::MulOp>(op))
      return combine(left, right, multiply);
    std::optional<double> number = getSplat(op->getOperand(1));
    if (!number || !left)
      return std::nullopt;
    if (isa<graph::DivOp>(op))
      return combine(left, Polynomial{{{0, 0}, 1 / *number}}, multiply);
    if (*number != 2 && *number != 3)
      return std::nullopt;
    std::optional<Polynomial> power = left;
    for (int i = 1; i < *number; ++i)
      power = combine(power, left, multiply);
    return power;
  }

private:
  static Polynomial add(const Polynomial &left, const Polynomial &right) {
    Polynomial sum = left;
    for (auto [exponents, coefficient] : right)
      sum[exponents] += coefficient;
    return sum;
  }
  static Polynomial multiply(const Polynomial &left, const Polynomial &right) {
    Polynomial product;
    for (auto [a, x] : left)
      for (auto [b, y] : right)
        product[{a.first + b.first, a.second + b.second}] += x * y;
    return product;
  }
  static std::optional<Polynomial>
  combine(const std::optional<Polynomial> &left,
          const std::optional<Polynomial> &right,
          Polynomial (*function)(const Polynomial &, const Polynomial &)) {
    if (!left || !right)
      return std::nullopt;
    return function(*left, *right);
  }

  Value x, t;
};

} // namespace

static bool isPolynomial(const std::optional<Polynomial> &polynomial,
                         const Polynomial &expected) {
  if (!polynomial)
    return false;
  Polynomial rest = *polynomial;
  for (auto [exponents, coefficient] : expected) {
    auto found = rest.find(exponents);
    if (found == rest.end() || !isNear(found->second, coefficient))
      return false;
    rest.erase(found);
  }
  return llvm::all_of(rest, [](auto &term) { return term.second == 0; });
}

/// `value` and what it is computed from by arithmetic, to a depth.
static void collectInputs(Value value, int depth,
                          SmallVectorImpl<Value> &inputs) {
  if (llvm::is_contained(inputs, value))
    return;
  inputs.push_back(value);
  Operation *op = value.getDefiningOp();
  if (op && depth > 0 &&
      isa<graph::AddOp, graph::MulOp, graph::DivOp, graph::PowOp>(op))
    for (Value operand : op->getOperands())
      collectInputs(operand, depth - 1, inputs);
}

/// What is computed from `value` by sums and products, to a depth.
static void collectOutputs(Value value, int depth,
                           SmallVectorImpl<Operation *> &outputs) {
  for (Operation *user : value.getUsers()) {
    if (!isa<graph::AddOp, graph::MulOp, graph::DivOp>(user) ||
        llvm::is_contained(outputs, user))
      continue;
    outputs.push_back(user);
    if (depth > 0)
      collectOutputs(user->getResult(0), depth - 1, outputs);
  }
}

/// x/2 + x/2 t, where t is erf(x / sqrt 2) or tanh(sqrt(2/pi) (x + c x^3)), in
/// whatever order the sums and products are written.
static bool raiseGelu(Operation *op) {
  bool isErf = isa<graph::ErfOp>(op);
  Value t = op->getResult(0);
  Polynomial inner{{{1, 0}, std::sqrt(0.5)}};
  if (!isErf) {
    double slope = std::sqrt(2 / M_PI);
    inner = {{{1, 0}, slope}, {{3, 0}, slope * 0.044715}};
  }
  SmallVector<Value> candidates;
  collectInputs(op->getOperand(0), 6, candidates);
  SmallVector<Operation *> roots;
  collectOutputs(t, 3, roots);
  for (Value x : candidates) {
    PolynomialReader reader(x, t);
    if (!isPolynomial(reader.read(op->getOperand(0)), inner))
      continue;
    for (Operation *root : roots) {
      if (!isPolynomial(reader.read(root->getResult(0)),
                        {{{1, 0}, 0.5}, {{1, 1}, 0.5}}))
        continue;
      OpBuilder builder(root);
      Value gelu = graph::GeluOp::create(builder, root->getLoc(), x,
                                         isErf ? graph::GeluForm::Erf
                                               : graph::GeluForm::Tanh);
      if (Attribute scope = root->getAttr("graph.scope"))
        gelu.getDefiningOp()->setAttr("graph.scope", scope);
      root->getResult(0).replaceAllUsesWith(gelu);
      return true;
    }
  }
  return false;
}

// layer_norm

/// `value` before it was repeated along the last `count` dims of a tensor of
/// rank `rank`, through dims of size 1; null where it was not.
static Value beforeBroadcast(Value value, int64_t rank, int64_t count) {
  auto broadcast = value.getDefiningOp<graph::BroadcastOp>();
  if (!broadcast ||
      broadcast.getDims() != ArrayRef<int64_t>(llvm::to_vector(
                                 llvm::seq<int64_t>(0, rank - count))))
    return {};
  return broadcast.getInput();
}

/// The dims that only reshapes with dims of size 1 add are taken away.
static Value withoutUnitDims(Value value) {
  auto isUnit = [](int64_t size) { return size == 1; };
  while (auto reshape = value.getDefiningOp<graph::ReshapeOp>()) {
    SmallVector<int64_t> from(getShape(reshape.getInput()));
    SmallVector<int64_t> to(getShape(reshape));
    llvm::erase_if(from, isUnit);
    llvm::erase_if(to, isUnit);
    if (from != to)
      break;
    value = reshape.getInput();
  }
  return value;
}

/// `x` where `value` is its mean over the last `count` dims; else null.
static Value readMean(Value value, int64_t &count) {
  value = withoutUnitDims(value);
  Operation *op = value.getDefiningOp();
  double factor = 1;
  if (isa_and_nonnull<graph::MulOp, graph::DivOp>(op)) {
    std::optional<double> number = getSplat(op->getOperand(1));
    if (!number)
      return {};
    factor = isa<graph::MulOp>(op) ? *number : 1 / *number;
    value = withoutUnitDims(op->getOperand(0));
  }
  auto sum = value.getDefiningOp<graph::ReduceOp>();
  if (!sum || sum.getKind() != ReductionKind::Sum)
    return {};
  ArrayRef<int64_t> shape = getShape(sum.getInput());
  count = sum.getDims().size();
  if (sum.getDims() != ArrayRef<int64_t>(llvm::to_vector(llvm::seq<int64_t>(
                           shape.size() - count, shape.size()))) ||
      !isNear(factor, 1.0 / graph::numElements(shape.take_back(count))))
    return {};
  return sum.getInput();
}

/// (x - mean(x)) * rstd in the forms of exporters; `op` is the product.
static bool raiseLayerNorm(Operation *op) {
  Value centered, scale;
  if (isa<graph::DivOp, graph::MulOp>(op)) {
    centered = op->getOperand(0);
    scale = op->getOperand(1);
  }
  auto difference =
      centered ? centered.getDefiningOp<graph::SubOp>() : graph::SubOp();
  if (!difference)
    return false;
  Value x = difference.getLhs();
  int64_t rank = getShape(x).size(), count = 0;
  // The divisor is sqrt(variance + epsilon), the factor its reciprocal.
  auto strip = [&](Value value) -> Value {
    auto broadcast = value.getDefiningOp<graph::BroadcastOp>();
    return broadcast ? withoutUnitDims(broadcast.getInput()) : Value();
  };
  Value mean = strip(difference.getRhs()), root = strip(scale);
  if (!mean || !root || readMean(mean, count) != x ||
      !beforeBroadcast(difference.getRhs(), rank, count) ||
      !beforeBroadcast(scale, rank, count))
    return false;
  Operation *rootOp = root.getDefiningOp();
  if (isa<graph::MulOp>(op)) {
    auto reciprocal = dyn_cast_or_null<graph::DivOp>(rootOp);
    if (reciprocal && getSplat(reciprocal.getLhs()) == 1.0)
      rootOp = withoutUnitDims(reciprocal.getRhs()).getDefiningOp();
    else if (!isa_and_nonnull<graph::RsqrtOp>(rootOp))
      return false;
  }
  if (!isa_and_nonnull<graph::SqrtOp, graph::RsqrtOp>(rootOp) ||
      (isa<graph::DivOp>(op) && isa<graph::RsqrtOp>(rootOp)))
    return false;
  auto shifted =
      withoutUnitDims(rootOp->getOperand(0)).getDefiningOp<graph::AddOp>();
  std::optional<double> epsilon =
      shifted ? getSplat(shifted.getRhs()) : std::nullopt;
  int64_t squareCount = 0;
  Value square = epsilon ? readMean(shifted.getLhs(), squareCount) : Value();
  if (!square || squareCount != count)
    return false;
  // The variance may subtract the mean anew.
  auto isCentered = [&](Value value) {
    auto other = value.getDefiningOp<graph::SubOp>();
    int64_t otherCount = 0;
    Value otherMean = other ? strip(other.getRhs()) : Value();
    return value == centered ||
           (otherMean && other.getLhs() == x &&
            readMean(otherMean, otherCount) == x && otherCount == count);
  };
  Operation *squareOp = square.getDefiningOp();
  bool isSquare = (isa_and_nonnull<graph::MulOp>(squareOp) &&
                   squareOp->getOperand(0) == squareOp->getOperand(1)) ||
                  (isa_and_nonnull<graph::PowOp>(squareOp) &&
                   getSplat(squareOp->getOperand(1)) == 2.0);
  if (!isSquare || !isCentered(squareOp->getOperand(0)))
    return false;

  // Scale and bias, where they follow.
  SmallVector<int64_t> columns =
      llvm::to_vector(llvm::seq<int64_t>(rank - count, rank));
  auto affine = [&](Value value,
                    bool isScale) -> std::pair<Operation *, Value> {
    if (!value.hasOneUse())
      return {};
    Operation *user = *value.getUsers().begin();
    if (isScale ? !isa<graph::MulOp>(user) : !isa<graph::AddOp>(user))
      return {};
    Value other = user->getOperand(user->getOperand(0) == value ? 1 : 0);
    auto broadcast = other.getDefiningOp<graph::BroadcastOp>();
    if (!broadcast || broadcast.getDims() != ArrayRef<int64_t>(columns))
      return {};
    return {user, broadcast.getInput()};
  };
  Operation *last = op;
  auto [scaleOp, scaleValue] = affine(op->getResult(0), true);
  if (scaleOp)
    last = scaleOp;
  auto [biasOp, biasValue] = affine(last->getResult(0), false);
  if (biasOp)
    last = biasOp;
  OpBuilder builder(last);
  auto type = RankedTensorType::get(getShape(x).take_back(count),
                                    getGlobalType(x).getElementType());
  if (!scaleValue)
    scaleValue = graph::splat(builder, op->getLoc(), type, 1);
  if (!biasValue)
    biasValue = graph::splat(builder, op->getLoc(), type, 0);
  auto norm = graph::LayerNormOp::create(builder, op->getLoc(), x, scaleValue,
                                         biasValue, *epsilon);
  if (Attribute scope = op->getAttr("graph.scope"))
    norm->setAttr("graph.scope", scope);
  last->getResult(0).replaceAllUsesWith(norm.getResult());
  return true;
}

// attention

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
    std::optional<double> number = getSplat(op->getOperand(1));
    if (!number && isa<graph::MulOp>(op)) {
      rest = op->getOperand(1);
      number = getSplat(op->getOperand(0));
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
    fill = getSplat(select.getOnFalse()).value_or(0);
    return getSplat(select.getOnTrue()) == 0.0 && isMasking(fill)
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
    scores.fill = getSplat(select.getOnFalse()).value_or(0);
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
static bool raiseAttention(graph::MatmulOp matmul) {
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
        getSplat(select.getOnTrue()) != 0.0)
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
  if (Attribute scope = matmul->getAttr("graph.scope"))
    attention->setAttr("graph.scope", scope);
  matmul.replaceAllUsesWith(attention.getResult());
  return true;
}

namespace {
class RaiseComposites
    : public training::impl::RaiseCompositesPassBase<RaiseComposites> {
  void runOnOperation() override {
    FailureOr<func::FuncOp> forward = getForward(getOperation());
    if (failed(forward))
      return signalPassFailure();
    Block &body = forward->getBody().front();
    for (Operation &op : llvm::make_early_inc_range(body)) {
      if (isa<graph::TanhOp, graph::ErfOp>(op))
        raiseGelu(&op);
      else if (auto matmul = dyn_cast<graph::MatmulOp>(op))
        raiseAttention(matmul);
      else
        raiseLayerNorm(&op);
    }
    eraseDeadOps(body);
  }
};
} // namespace
