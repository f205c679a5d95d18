// Raises attention from its ops: softmax(q k^T, scaled and masked) v.

#include "compiler/training/AttentionOperands.h"
#include "compiler/training/AttentionTerms.h"
#include "compiler/training/RaiseComposites.h"
#include "dialects/graph/ElementTypes.h"
#include "dialects/graph/Parts.h"
#include "dialects/graph/Provenance.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::Comparison;
using graph::getShape;

namespace {

/// Raises the attention that ends in one product of probabilities and values.
class AttentionRaiser {
public:
  AttentionRaiser(graph::MatmulOp product, KnownBands &known)
      : product(product), builder(product), known(known) {}
  bool raise();

private:
  /// Notes why an attention stays in parts; returns false.
  bool stay(const Twine &why) {
    reason = why.str();
    return false;
  }
  bool raiseFound();
  bool readProbabilities();
  bool readScores(Value scores, AttentionTerms &terms);
  void findSizes(Value scores);
  bool readKeys();
  graph::MatmulOp findProduct(Value scores);
  Value operandOf(graph::MatmulOp matmul, bool isRight,
                  ArrayRef<int64_t> shape);

  graph::MatmulOp product, scoresProduct;
  OpBuilder builder;
  KnownBands &known;
  graph::SoftmaxOp softmax;
  /// The condition, of the shape of the probabilities, outside of which they
  /// are zeroed; and true if those that are no numbers are zeroed.
  Value zeroed;
  bool isNaNZeroed = false;
  graph::AttentionForm form;
  SmallVector<Value> counters;
  /// The dims of the scores: batch, heads, queries, keys.
  SmallVector<int64_t> shape;
  Value query, key, value;
  std::string reason;
};

} // namespace

/// Returns true for a reshape, or a transpose of dims of size 1 alone, that
/// keeps the last two dims, queries and keys.
static bool keepsPositions(Operation *op) {
  if (auto transpose = dyn_cast_or_null<graph::TransposeOp>(op)) {
    SmallVector<int64_t> order(transpose.getPermutation());
    llvm::erase_if(order, [&](int64_t dim) {
      return getShape(transpose.getInput())[dim] == 1;
    });
    if (!llvm::is_sorted(order))
      return false;
  } else if (!isa_and_nonnull<graph::ReshapeOp>(op)) {
    return false;
  }
  ArrayRef<int64_t> from = getShape(op->getOperand(0)),
                    to = getShape(op->getResult(0));
  return from.size() >= 2 && to.size() >= 2 &&
         from.take_back(2) == to.take_back(2);
}

/// From the product of probabilities and values up to the softmax.
bool AttentionRaiser::readProbabilities() {
  Value probabilities = product.getLhs();
  while (Operation *op = probabilities.getDefiningOp()) {
    if (keepsPositions(op)) {
      probabilities = op->getOperand(0);
    } else if (auto dropout = dyn_cast<graph::DropoutOp>(op);
               dropout && !form.rate) {
      form.rate = dropout.getRate().convertToDouble();
      form.rngId = dropout.getRngId();
      counters = {dropout.getSeed(), dropout.getStep(),
                  dropout.getMicrobatch()};
      probabilities = dropout.getInput();
    } else if (auto select = dyn_cast<graph::SelectOp>(op);
               select && !zeroed && !isNaNZeroed) {
      auto isNaN = select.getCondition().getDefiningOp<graph::CompareOp>();
      if (isNaN && isNaN.getComparison() == Comparison::NE &&
          isNaN.getLhs() == isNaN.getRhs() &&
          isNaN.getLhs() == select.getOnFalse() &&
          graph::getSplat(select.getOnTrue()) == 0.0) {
        isNaNZeroed = true;
        probabilities = select.getOnFalse();
      } else if (graph::getSplat(select.getOnFalse()) == 0.0) {
        zeroed = select.getCondition();
        probabilities = select.getOnTrue();
      } else if (graph::getSplat(select.getOnTrue()) == 0.0) {
        zeroed = graph::Parts(builder, select.getLoc())
                     .apply<graph::NotOp>(select.getCondition());
        probabilities = select.getOnFalse();
      } else {
        return false;
      }
    } else {
      softmax = dyn_cast<graph::SoftmaxOp>(op);
      return softmax && getShape(softmax).size() >= 2 &&
             static_cast<int64_t>(softmax.getDim()) + 1 ==
                 static_cast<int64_t>(getShape(softmax).size());
    }
  }
  return false;
}

/// The product of queries and keys from which scores are made by ops on each
/// element alone; null if there is none.
graph::MatmulOp AttentionRaiser::findProduct(Value scores) {
  SmallVector<Value> left{scores};
  llvm::SmallPtrSet<Operation *, 16> seen;
  while (!left.empty()) {
    Operation *op = left.pop_back_val().getDefiningOp();
    if (!op || !seen.insert(op).second)
      continue;
    if (auto matmul = dyn_cast<graph::MatmulOp>(op))
      return matmul;
    double factor;
    if (Value rest = readFactor(op, factor)) {
      left.push_back(rest);
    } else if (keepsPositions(op) || isa<graph::TanhOp>(op)) {
      left.push_back(op->getOperand(0));
    } else if (auto select = dyn_cast<graph::SelectOp>(op)) {
      left.push_back(graph::getSplat(select.getOnFalse())
                         ? select.getOnTrue()
                         : select.getOnFalse());
    } else if (isa<graph::AddOp>(op)) {
      left.append({op->getOperand(1), op->getOperand(0)});
    }
  }
  return {};
}

/// Finds batch and heads: the scores have both in some form, or the queries
/// before both were merged; otherwise all are heads of one sample.
void AttentionRaiser::findSizes(Value scores) {
  ArrayRef<int64_t> positions = getShape(scores).take_back(2);
  SmallVector<ArrayRef<int64_t>> candidates{
      getShape(scores), getShape(product.getLhs()), getShape(scoresProduct)};
  Value queries = scoresProduct.getLhs();
  double factor;
  while (Operation *op = queries.getDefiningOp()) {
    candidates.push_back(getShape(queries));
    if (Value rest = readFactor(op, factor))
      queries = rest;
    else if (isa<graph::ReshapeOp>(op))
      queries = op->getOperand(0);
    else
      break;
  }
  candidates.push_back(getShape(queries));
  int64_t count =
      graph::numElements(getShape(scores)) / graph::numElements(positions);
  for (ArrayRef<int64_t> each : candidates)
    if (each.size() == 4 && each[0] * each[1] == count &&
        each[2] == positions[0]) {
      shape.assign({each[0], each[1], positions[0], positions[1]});
      return;
    }
  shape.assign({1, count, positions[0], positions[1]});
}

/// From the softmax up to the product of queries and keys.
bool AttentionRaiser::readScores(Value scores, AttentionTerms &terms) {
  double outer = 1; // the product of the factors so far
  bool isBent = false;
  while (scores != scoresProduct.getResult()) {
    Operation *op = scores.getDefiningOp();
    double factor = 1;
    if (keepsPositions(op)) {
      scores = op->getOperand(0);
    } else if (Value rest = readFactor(op, factor)) {
      outer *= factor;
      scores = rest;
    } else if (isa<graph::TanhOp>(op) && !isBent && outer > 0) {
      // outer tanh(s / outer) of the score s.
      form.softcap = outer;
      isBent = true;
      scores = op->getOperand(0);
    } else if (isBent) {
      return stay("there is a '" + op->getName().getStringRef() +
                  "' between the product and the tanh of its scores");
    } else if (auto select = dyn_cast<graph::SelectOp>(op)) {
      std::optional<double> fill = graph::getSplat(select.getOnFalse());
      bool isNegated = !fill;
      if (isNegated)
        fill = graph::getSplat(select.getOnTrue());
      if (!fill)
        return stay("scores are replaced by numbers that differ");
      Value condition = reshaped(builder, select.getCondition(), shape);
      if (isNegated)
        condition =
            graph::Parts(builder, op->getLoc()).apply<graph::NotOp>(condition);
      terms.replace(condition, *fill * outer);
      scores = isNegated ? select.getOnFalse() : select.getOnTrue();
    } else if (isa<graph::AddOp>(op)) {
      bool isFirst = findProduct(op->getOperand(0)) == scoresProduct;
      terms.add(reshaped(builder, op->getOperand(isFirst ? 1 : 0), shape),
                outer);
      scores = op->getOperand(isFirst ? 0 : 1);
    } else {
      return stay("there is a '" + op->getName().getStringRef() +
                  "' between the product and the softmax");
    }
  }
  form.scale *= outer;
  return std::isfinite(form.scale) ||
         stay("its scores are multiplied by " + std::to_string(form.scale));
}

/// An operand of a product with its batch dims first, and then the given shape.
/// The left one has its free dims before those that are summed.
Value AttentionRaiser::operandOf(graph::MatmulOp matmul, bool isRight,
                                 ArrayRef<int64_t> wanted) {
  SmallVector<int64_t> order;
  if (isRight) {
    llvm::append_range(order, matmul.getRhsBatch());
    bool areValues = matmul == product;
    llvm::append_range(order, areValues
                                  ? matmul.getRhsContract()
                                  : ArrayRef<int64_t>(matmul.getRhsFree()));
    llvm::append_range(order, areValues ? ArrayRef<int64_t>(matmul.getRhsFree())
                                        : matmul.getRhsContract());
  } else {
    llvm::append_range(order, matmul.getLhsBatch());
    llvm::append_range(order, matmul.getLhsFree());
    llvm::append_range(order, matmul.getLhsContract());
  }
  Value operand = isRight ? matmul.getRhs() : matmul.getLhs();
  double &scale = form.scale;
  if (matmul == scoresProduct)
    operand = withoutFactors(builder, operand, scale);
  return reshaped(builder, permuted(builder, operand, order), wanted);
}

/// Reads queries, keys and values as operands of four dims.
bool AttentionRaiser::readKeys() {
  int64_t batch = shape[0], heads = shape[1], queries = shape[2],
          keys = shape[3];
  // Each result lies in memory as [batch, heads, queries, ..].
  auto groupsOf = [&](graph::MatmulOp matmul) -> int64_t {
    int64_t products = sizeOf(getShape(matmul.getLhs()), matmul.getLhsBatch());
    if (products % batch != 0 || heads % (products / batch) != 0)
      return 0;
    int64_t groups = products / batch;
    return sizeOf(getShape(matmul.getLhs()), matmul.getLhsFree()) ==
                   heads / groups * queries
               ? groups
               : 0;
  };
  int64_t keyGroups = groupsOf(scoresProduct), valueGroups = groupsOf(product);
  if (keyGroups == 0 || valueGroups == 0)
    return stay("samples and heads of its products are not those of its "
                "scores");
  auto sizeOfSum = [](graph::MatmulOp matmul) {
    return sizeOf(getShape(matmul.getLhs()), matmul.getLhsContract());
  };
  if (sizeOfSum(product) != keys || sizeOf(getShape(scoresProduct.getRhs()),
                                           scoresProduct.getRhsFree()) != keys)
    return stay("its two products have different keys");
  int64_t width = sizeOfSum(scoresProduct),
          valueWidth = sizeOf(getShape(product.getRhs()), product.getRhsFree());
  query = operandOf(scoresProduct, false, {batch, heads, queries, width});
  key = withoutRepeatedHeads(
      builder, operandOf(scoresProduct, true, {batch, keyGroups, keys, width}));
  value = withoutRepeatedHeads(
      builder,
      operandOf(product, true, {batch, valueGroups, keys, valueWidth}));
  keyGroups = getShape(key)[1];
  valueGroups = getShape(value)[1];
  int64_t groups = std::max(keyGroups, valueGroups);
  if (groups % keyGroups != 0 || groups % valueGroups != 0)
    return stay(Twine(keyGroups) + " heads of keys and " + Twine(valueGroups) +
                " of values serve the same queries");
  key = repeatHeads(builder, key, groups);
  value = repeatHeads(builder, value, groups);
  return true;
}

bool AttentionRaiser::raise() {
  // The probabilities have their own order of dims: [.., queries, keys].
  SmallVector<int64_t> order(product.getLhsBatch());
  llvm::append_range(order, product.getLhsFree());
  llvm::append_range(order, product.getLhsContract());
  llvm::erase_if(
      order, [&](int64_t dim) { return getShape(product.getLhs())[dim] == 1; });
  if (!llvm::is_sorted(order) ||
      graph::numElements(getShape(product.getLhs())) == 0 ||
      !readProbabilities())
    return false;
  scoresProduct = findProduct(softmax.getInput());
  if (!scoresProduct)
    return false;
  findSizes(softmax.getInput());
  // What has a parameter instead of keys, or values, is no attention.
  for (Value operand : {scoresProduct.getRhs(), product.getRhs()})
    while (true) {
      if (isa<BlockArgument>(operand) && getShape(operand).size() < 3)
        return false;
      Operation *op = operand.getDefiningOp();
      if (!isa_and_nonnull<graph::TransposeOp, graph::ReshapeOp>(op))
        break;
      operand = op->getOperand(0);
    }
  if (raiseFound())
    return true;
  product.emitRemark()
      << "the attention of " << graph::describe(product)
      << " stays in parts, which hold a number for each pair of "
         "a query and a key: "
      << reason;
  return false;
}

/// Raises what is an attention by its products and its softmax. All of it has
/// one element type.
bool AttentionRaiser::raiseFound() {
  Type element = getElementTypeOrSelf(product.getResult());
  for (Value each : {scoresProduct.getLhs(), scoresProduct.getResult(),
                     product.getLhs(), product.getRhs()})
    if (getElementTypeOrSelf(each) != element)
      return stay("its products multiply or give different element types");
  AttentionTerms terms(
      builder, shape,
      graph::accumulatorOf(getElementTypeOrSelf(softmax.getResult())), known);
  if (!readScores(softmax.getInput(), terms) || !readKeys())
    return false;
  if (zeroed)
    terms.zero(reshaped(builder, zeroed, shape));
  if (isNaNZeroed)
    terms.zeroNaN();
  Value bias, mask;
  if (std::string why = terms.write(form, bias, mask); !why.empty())
    return stay(why);
  auto attention = graph::AttentionOp::create(
      builder, product.getLoc(), query, key, value, form, bias, mask, counters);
  graph::copyProvenance(product, attention);
  product.replaceAllUsesWith(
      reshaped(builder, attention.getResult(), getShape(product.getResult())));
  return true;
}

bool training::raiseAttention(graph::MatmulOp matmul, KnownBands &known) {
  return AttentionRaiser(matmul, known).raise();
}
