// rank.attention and rank.attention_grad: attention of strided operands.

#include "dialects/graph/Graph.h"
#include "dialects/rank/Rank.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::rank;

graph::AttentionForm AttentionOp::getForm() {
  return graph::readAttentionForm(*this);
}
graph::AttentionForm AttentionGradOp::getForm() {
  return graph::readAttentionForm(*this);
}

namespace {

/// A tensor [batch, heads, rows, width] in an operand or a result.
struct RowsOf {
  StringRef name;
  Value value;
  /// Offset, and the strides of sample, head and row.
  SmallVector<int64_t> access;
  SmallVector<int64_t> shape;
};

} // namespace

/// Puts the offset that accesses of results do not have.
static SmallVector<int64_t> withOffset(ArrayRef<int64_t> access) {
  SmallVector<int64_t> result{0};
  llvm::append_range(result, access);
  return result;
}

template <typename Op>
static SmallVector<int64_t> rowsOfQueries(Op op, int64_t width) {
  return {op.getBatchSize(), op.getHeads(), op.getQueries(), width};
}
template <typename Op>
static SmallVector<int64_t> rowsOfKeys(Op op, int64_t width) {
  return {op.getBatchSize(), op.getGroups(), op.getKeys(), width};
}

template <typename Op>
static SmallVector<RowsOf> inputsOf(Op op) {
  return {{"query", op.getQ(), SmallVector<int64_t>(op.getQueryAccess()),
           rowsOfQueries(op, op.getWidth())},
          {"key", op.getK(), SmallVector<int64_t>(op.getKeyAccess()),
           rowsOfKeys(op, op.getWidth())},
          {"value", op.getV(), SmallVector<int64_t>(op.getValueAccess()),
           rowsOfKeys(op, op.getValueWidth())}};
}

/// The tensors that are read with strides, in the order of the operands.
static SmallVector<RowsOf> readsOf(AttentionOp op) { return inputsOf(op); }
static SmallVector<RowsOf> readsOf(AttentionGradOp op) {
  SmallVector<RowsOf> reads = {{"the result's gradient", op.getResultGradient(),
                                SmallVector<int64_t>(op.getGradientAccess()),
                                rowsOfQueries(op, op.getValueWidth())}};
  llvm::append_range(reads, inputsOf(op));
  reads.push_back({"result", op.getResultValue(),
                   SmallVector<int64_t>(op.getResultAccess()),
                   rowsOfQueries(op, op.getValueWidth())});
  return reads;
}

static SmallVector<RowsOf> writesOf(AttentionOp op) {
  return {{"result", op.getResult(), withOffset(op.getResultAccess()),
           rowsOfQueries(op, op.getValueWidth())}};
}
static SmallVector<RowsOf> writesOf(AttentionGradOp op) {
  return {{"the query's gradient", op.getQueryGradient(),
           withOffset(op.getQueryGradientAccess()),
           rowsOfQueries(op, op.getWidth())},
          {"the key's gradient", op.getKeyGradient(),
           withOffset(op.getKeyGradientAccess()),
           rowsOfKeys(op, op.getWidth())},
          {"the value's gradient", op.getValueGradient(),
           withOffset(op.getValueGradientAccess()),
           rowsOfKeys(op, op.getValueWidth())}};
}

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

template <typename Op>
static int64_t readBegin(Op op, unsigned operand) {
  SmallVector<RowsOf> reads = readsOf(op);
  if (operand >= reads.size())
    return 0;
  return reads[operand].access[0] *
         getElementByteSize(typeOf(reads[operand].value).getElementType());
}
int64_t AttentionOp::getReadBegin(unsigned operand) {
  return readBegin(*this, operand);
}
int64_t AttentionGradOp::getReadBegin(unsigned operand) {
  return readBegin(*this, operand);
}

/// Pairs of query and key that count, in all heads.
template <typename Op>
static int64_t countAllPairs(Op op) {
  graph::AttentionSizes sizes(rowsOfQueries(op, op.getWidth()),
                              rowsOfKeys(op, op.getValueWidth()));
  return op.getBatchSize() * op.getHeads() *
         graph::countPairs(op.getForm(), sizes);
}
int64_t AttentionOp::getFlops() {
  return 2 * countAllPairs(*this) * (getWidth() + getValueWidth());
}
int64_t AttentionGradOp::getFlops() {
  return 2 * countAllPairs(*this) * (3 * getWidth() + 2 * getValueWidth());
}

template <typename Op>
static std::string textOf(Op op, StringRef name) {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << name << " " << op.getBatchSize() << "x" << op.getHeads() << "x"
      << op.getQueries() << "x" << op.getKeys() << " of " << op.getWidth();
  if (op.getCausal())
    out << " causal";
  return text;
}
std::string AttentionOp::getText() { return textOf(*this, "attention"); }
std::string AttentionGradOp::getText() {
  return textOf(*this, "attention_grad");
}

/// Calls body(element of [batch, heads, rows, width], element of the operand).
static void forEachElement(const RowsOf &rows,
                           function_ref<void(int64_t, int64_t)> body) {
  int64_t element = 0;
  graph::forEachIndex(rows.shape, [&](ArrayRef<int64_t> index) {
    body(element++, rows.access[0] + index[0] * rows.access[1] +
                        index[1] * rows.access[2] + index[2] * rows.access[3] +
                        index[3]);
  });
}
static graph::Tensor gather(const RowsOf &rows, const graph::Tensor &from) {
  graph::Tensor result(from.elementType, rows.shape);
  forEachElement(rows, [&](int64_t element, int64_t place) {
    result.floats[element] = from.floats[place];
  });
  return result;
}
static void scatter(const RowsOf &rows, const graph::Tensor &from,
                    graph::Tensor &to) {
  forEachElement(rows, [&](int64_t element, int64_t place) {
    to.floats[place] = from.floats[element];
  });
}

/// Adds the operands that need not be there, of which the first has the number
/// `next`.
template <typename Op>
static void addOptions(Op op, ArrayRef<graph::Tensor> operands, unsigned next,
                       graph::AttentionTensors &tensors) {
  tensors.bias = op.getBias() ? &operands[next++] : nullptr;
  tensors.mask = op.getMask() ? &operands[next++] : nullptr;
  tensors.counters = operands.drop_front(next);
}

LogicalResult AttentionOp::evaluate(ArrayRef<graph::Tensor> operands,
                                    MutableArrayRef<graph::Tensor> results) {
  SmallVector<graph::Tensor> read;
  for (auto [rows, operand] : llvm::zip(readsOf(*this), operands))
    read.push_back(gather(rows, operand));
  graph::AttentionTensors tensors{&read[0], &read[1], &read[2],
                                  nullptr,  nullptr,  {}};
  addOptions(*this, operands, 3, tensors);
  RowsOf rows = writesOf(*this)[0];
  graph::Tensor result(results[0].elementType, rows.shape);
  graph::evaluateAttention(getForm(), tensors, result, results[1]);
  scatter(rows, result, results[0]);
  return success();
}

LogicalResult
AttentionGradOp::evaluate(ArrayRef<graph::Tensor> operands,
                          MutableArrayRef<graph::Tensor> results) {
  SmallVector<graph::Tensor> read;
  for (auto [rows, operand] : llvm::zip(readsOf(*this), operands))
    read.push_back(gather(rows, operand));
  graph::AttentionTensors tensors{&read[1], &read[2], &read[3],
                                  nullptr,  nullptr,  {}};
  addOptions(*this, operands, 6, tensors);
  SmallVector<RowsOf> writes = writesOf(*this);
  SmallVector<graph::Tensor> gradients;
  for (auto [rows, result] : llvm::zip(writes, results))
    gradients.emplace_back(result.elementType, rows.shape);
  graph::evaluateAttentionGrad(
      getForm(), tensors, read[0], read[4], operands[5], gradients[0],
      gradients[1], gradients[2], getBiasGradient() ? &results[3] : nullptr);
  for (auto [rows, gradient, result] : llvm::zip(writes, gradients, results))
    scatter(rows, gradient, result);
  return success();
}

/// Condition 1.
template <typename Op>
static LogicalResult verifyCallTypes(Op op, ArrayRef<Value> others) {
  Type element = typeOf(op.getQ()).getElementType();
  SmallVector<Value> rows;
  for (const RowsOf &each : readsOf(op))
    rows.push_back(each.value);
  for (const RowsOf &each : writesOf(op))
    rows.push_back(each.value);
  for (Value value : rows)
    if (!isa<FloatType>(element) || typeOf(value).getElementType() != element)
      return op.emitOpError("[1] computes with ")
             << element << " and " << typeOf(value).getElementType()
             << "; all are of one float type";
  if (failed(graph::verifySums(op, {op.getQ()}, "bias and lse", others)))
    return failure();
  if (op.getMask() && !typeOf(op.getMask()).getElementType().isInteger(1))
    return op.emitOpError("[1] the mask has ")
           << typeOf(op.getMask()).getElementType() << " instead of booleans";
  for (Value counter : op.getCounters())
    if (typeOf(counter).getRank() != 0 ||
        !typeOf(counter).getElementType().isInteger(64))
      return op.emitOpError("[1] a counter is ")
             << counter.getType() << "; it must be an i64 scalar";
  return success();
}

/// Conditions 2 to 4.
template <typename Op>
static LogicalResult verifyCallRows(Op op) {
  if (op.getSizes().size() != 7 ||
      llvm::any_of(op.getSizes(), [](int64_t size) { return size < 1; }) ||
      op.getHeads() % op.getGroups() != 0)
    return op.emitOpError("[2] sizes are [")
           << op.getSizes()
           << "]; they are [batch, heads, groups, queries, keys, width, value "
              "width], and heads are a multiple of groups";
  auto isAccess = [](const RowsOf &rows) {
    return rows.access.size() == 4 &&
           llvm::none_of(rows.access, [](int64_t i) { return i < 0; }) &&
           rows.access[3] >= rows.shape[3];
  };
  for (const RowsOf &rows : readsOf(op)) {
    if (!isAccess(rows))
      return op.emitOpError("[3] ") << rows.name << " is at [" << rows.access
                                    << "], in rows of " << rows.shape[3];
    int64_t last = rows.access[0] + rows.shape[3] - 1;
    for (int dim = 0; dim < 3; ++dim)
      last += (rows.shape[dim] - 1) * rows.access[dim + 1];
    if (last >= typeOf(rows.value).getNumElements())
      return op.emitOpError("[3] reads element ")
             << last << " of " << rows.name << ", which has "
             << typeOf(rows.value).getNumElements();
  }
  for (const RowsOf &rows : writesOf(op)) {
    if (!isAccess(rows))
      return op.emitOpError("[4] ")
             << rows.name << " is at [" << ArrayRef(rows.access).drop_front()
             << "], in rows of " << rows.shape[3];
    SmallVector<std::pair<int64_t, int64_t>> loops = {{1, rows.shape[3]}};
    for (int dim = 0; dim < 3; ++dim)
      loops.push_back({rows.access[dim + 1], rows.shape[dim]});
    llvm::erase_if(loops, [](auto loop) { return loop.second == 1; });
    llvm::sort(loops);
    int64_t next = 1;
    for (auto [stride, count] : loops) {
      if (stride != next)
        return op.emitOpError("[4] a loop of ")
               << count << " writes " << rows.name << " with stride " << stride
               << " where " << next << " elements are covered";
      next *= count;
    }
    if (next != typeOf(rows.value).getNumElements())
      return op.emitOpError("[4] writes ")
             << next << " of " << typeOf(rows.value).getNumElements()
             << " elements of " << rows.name;
  }
  return success();
}

/// Condition 5.
template <typename Op>
static LogicalResult verifyCallScores(Op op) {
  SmallVector<int64_t> all{op.getBatchSize(), op.getHeads(), op.getQueries(),
                           op.getKeys()};
  if (typeOf(op.getLse()).getShape() != ArrayRef(all).drop_back())
    return op.emitOpError("[5] lse is ")
           << op.getLse().getType() << " instead of ["
           << ArrayRef(all).drop_back() << "]";
  for (auto [name, value] : {std::pair<StringRef, Value>{"bias", op.getBias()},
                             {"mask", op.getMask()}}) {
    if (!value)
      continue;
    ArrayRef<int64_t> shape = typeOf(value).getShape();
    if (shape.size() != 4 || llvm::any_of(llvm::zip(shape, all), [](auto pair) {
          return std::get<0>(pair) != 1 &&
                 std::get<0>(pair) != std::get<1>(pair);
        }))
      return op.emitOpError("[5] ")
             << name << " is " << value.getType() << ", whose dims are not ["
             << all << "] or 1";
  }
  return success();
}

/// Condition 6.
template <typename Op>
static LogicalResult verifyCallForm(Op op) {
  graph::AttentionForm form = op.getForm();
  if (form.window && (*form.window < 1 || !form.causal))
    return op.emitOpError("[6] a window of ")
           << *form.window << "; it is at least 1, and of causal attention";
  if (form.softcap && !(*form.softcap > 0 && std::isfinite(*form.softcap)))
    return op.emitOpError("[6] softcap is ")
           << *form.softcap << "; it must be a positive number";
  bool hasFill = op.getFill().has_value();
  if (hasFill != (form.masked != graph::Masked::Zero) || std::isnan(form.fill))
    return op.emitOpError("[6] masked ")
           << graph::stringifyMasked(form.masked)
           << "; add and replace have a fill, and zero has none";
  bool drops = form.rate.has_value();
  size_t counters = drops ? form.globalShape.empty() ? 3 : 7 : 0;
  if (drops != op.getRngId().has_value() ||
      op.getCounters().size() != counters ||
      (!form.globalShape.empty() && (!drops || form.globalShape.size() != 4)) ||
      (drops && !(*form.rate >= 0 && *form.rate < 1)))
    return op.emitOpError("[6] dropout has a rate in [0, 1), an rng_id and "
                          "three counters, and with a global shape of four "
                          "dims four offsets");
  return success();
}

LogicalResult AttentionOp::verify() {
  return failure(failed(verifyCallRows(*this)) ||
                 failed(verifyCallTypes(*this, {getLse(), getBias()})) ||
                 failed(verifyCallScores(*this)) ||
                 failed(verifyCallForm(*this)));
}

LogicalResult AttentionGradOp::verify() {
  if (failed(verifyCallRows(*this)) ||
      failed(verifyCallTypes(*this, {getLse(), getBias()})) ||
      failed(verifyCallScores(*this)) || failed(verifyCallForm(*this)))
    return failure();
  if (Value gradient = getBiasGradient();
      gradient && (!getBias() || gradient.getType() != getBias().getType()))
    return emitOpError("[7] the bias's gradient is ")
           << gradient.getType() << "; the bias is "
           << (getBias() ? getBias().getType()
                         : Type(NoneType::get(getContext())));
  return success();
}
