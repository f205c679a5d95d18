// attention and attention_grad: verification, gradient and cost.

#include "dialects/graph/ElementTypes.h"
#include "dialects/graph/Parts.h"
#include "dialects/graph/Provenance.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::graph;

AttentionForm AttentionOp::getForm() { return readAttentionForm(*this); }
AttentionForm AttentionGradOp::getForm() { return readAttentionForm(*this); }
AttentionSizes AttentionOp::getSizes() {
  return {getShape(getQuery()), getShape(getValue())};
}
AttentionSizes AttentionGradOp::getSizes() {
  return {getShape(getQuery()), getShape(getValue())};
}

void AttentionOp::build(OpBuilder &builder, OperationState &state, Value query,
                        Value key, Value value, const AttentionForm &form,
                        Value bias, Value mask, ValueRange counters) {
  state.addOperands({query, key, value});
  for (Value operand : {bias, mask})
    if (operand)
      state.addOperands(operand);
  state.addOperands(counters);
  auto &properties = state.getOrAddProperties<Properties>();
  llvm::copy(ArrayRef<int32_t>{1, 1, 1, bias ? 1 : 0, mask ? 1 : 0,
                               static_cast<int32_t>(counters.size())},
             properties.operandSegmentSizes.begin());
  properties.scale = builder.getF64FloatAttr(form.scale);
  properties.causal = builder.getBoolAttr(form.causal);
  if (form.window)
    properties.window = builder.getI64IntegerAttr(*form.window);
  if (form.softcap)
    properties.softcap = builder.getF64FloatAttr(*form.softcap);
  properties.masked = MaskedAttr::get(builder.getContext(), form.masked);
  if (form.masked != Masked::Zero)
    properties.fill = builder.getF64FloatAttr(form.fill);
  if (form.rate) {
    properties.rate = builder.getF64FloatAttr(*form.rate);
    properties.rng_id = builder.getI64IntegerAttr(form.rngId);
  }
  if (!form.globalShape.empty())
    properties.global_shape = builder.getDenseI64ArrayAttr(form.globalShape);
  AttentionSizes sizes(getShape(query), getShape(value));
  Type element = getGlobalType(query).getElementType();
  addResultTypes(
      builder, state,
      {RankedTensorType::get(
           {sizes.batch, sizes.heads, sizes.queries, sizes.valueWidth},
           element),
       RankedTensorType::get({sizes.batch, sizes.heads, sizes.queries},
                             accumulatorOf(element))});
}

// Verification

/// Conditions 2 to 4.
template <typename Op>
static LogicalResult verifyShapes(Op op, Value result, Value lse) {
  for (Value operand :
       std::initializer_list<Value>{op.getQuery(), op.getKey(), op.getValue(),
                                    result, op.getBias(), op.getMask()})
    if (operand && getShape(operand).size() != 4)
      return op.emitOpError("[2] query, key, value and result have the dims "
                            "[batch, heads, sequence, width], and bias and "
                            "mask those of the scores; one has [")
             << getShape(operand) << "]";
  AttentionSizes sizes = op.getSizes();
  if (sizes.groups == 0 || sizes.heads % sizes.groups != 0)
    return op.emitOpError("[4] ")
           << sizes.heads << " heads of queries cannot share " << sizes.groups
           << " heads of keys and values";
  auto check = [&](StringRef name, Value operand,
                   ArrayRef<int64_t> shape) -> LogicalResult {
    if (getShape(operand) != shape)
      return op.emitOpError("[3] ")
             << name << " has dims [" << getShape(operand)
             << "] where the others make it [" << shape << "]";
    return success();
  };
  if (failed(check("key", op.getKey(),
                   {sizes.batch, sizes.groups, sizes.keys, sizes.width})) ||
      failed(
          check("value", op.getValue(),
                {sizes.batch, sizes.groups, sizes.keys, sizes.valueWidth})) ||
      failed(
          check("result", result,
                {sizes.batch, sizes.heads, sizes.queries, sizes.valueWidth})) ||
      failed(check("lse", lse, {sizes.batch, sizes.heads, sizes.queries})))
    return failure();
  for (auto [name, operand] :
       {std::pair<StringRef, Value>{"bias", op.getBias()},
        {"mask", op.getMask()}}) {
    if (!operand)
      continue;
    for (auto [size, whole] :
         llvm::zip_equal(getShape(operand), sizes.getScoreShape()))
      if (size != 1 && size != whole)
        return op.emitOpError("[3] ")
               << name << " has dims [" << getShape(operand)
               << "], which do not broadcast to the scores ["
               << sizes.getScoreShape() << "]";
  }
  return success();
}

/// Conditions 5 to 8.
template <typename Op>
static LogicalResult verifyForm(Op op) {
  AttentionForm form = op.getForm();
  if (form.window && (*form.window < 1 || !form.causal))
    return op.emitOpError("[5] ")
           << (form.causal ? "a causal attention"
                           : "an attention that is not causal")
           << " has a window of " << *form.window
           << "; a window is at least 1, and of causal attention";
  if (form.softcap && !(*form.softcap > 0 && std::isfinite(*form.softcap)))
    return op.emitOpError("[6] softcap is ")
           << *form.softcap << "; it must be a positive number";
  bool hasFill = op.getFill().has_value();
  if (hasFill != (form.masked != Masked::Zero) || std::isnan(form.fill))
    return op.emitOpError("[7] masked ")
           << stringifyMasked(form.masked) << " and "
           << (hasFill ? "a fill of " + std::to_string(form.fill) : "no fill")
           << "; add and replace have a number, and zero has none";
  size_t counters = op.getCounters().size();
  bool isDropping = form.rate.has_value();
  if (isDropping != op.getRngId().has_value() || isDropping != (counters > 0) ||
      (form.rate && !(*form.rate >= 0 && *form.rate < 1)))
    return op.emitOpError("[8] dropout has a rate in [0, 1), an rng_id and "
                          "counters, or none of them");
  for (Value counter : op.getCounters())
    if (!getShape(counter).empty())
      return op.emitOpError("[8] a counter must be a scalar");
  bool isLocal = op.getGlobalShape().has_value();
  if (isDropping ? counters != (isLocal ? 7 : 3) ||
                       (isLocal && form.globalShape.size() != 4)
                 : isLocal)
    return op.emitOpError("[8] ")
           << counters << " counters and a global shape of "
           << form.globalShape.size()
           << " dims; there are seed, step and microbatch, and four offsets "
              "where there is a global shape of four dims";
  return success();
}

LogicalResult AttentionOp::verify() {
  return failure(
      failed(verifySums(*this, {getQuery(), getKey(), getValue(), getResult()},
                        "bias and lse", {getLse(), getBias()})) ||
      failed(verifyShapes(*this, getResult(), getLse())) ||
      failed(verifyForm(*this)));
}

LogicalResult AttentionGradOp::verify() {
  if (failed(verifySums(*this,
                        {getQuery(), getKey(), getValue(), getResultValue(),
                         getResultGradient(), getQueryGradient(),
                         getKeyGradient(), getValueGradient()},
                        "bias and lse", {getLse(), getBias()})) ||
      failed(verifyShapes(*this, getResultValue(), getLse())) ||
      failed(verifyForm(*this)))
    return failure();
  auto isOf = [](Value gradient, Value value) {
    return !gradient ||
           (value && getGlobalType(gradient) == getGlobalType(value));
  };
  if (!isOf(getResultGradient(), getResultValue()) ||
      !isOf(getQueryGradient(), getQuery()) ||
      !isOf(getKeyGradient(), getKey()) ||
      !isOf(getValueGradient(), getValue()) ||
      !isOf(getBiasGradient(), getBias()))
    return emitOpError("[9] gradients must have the types of their values");
  return success();
}

// Dropout, gradient, cost, evaluation

std::optional<double> AttentionOp::getDropRate() { return getForm().rate; }

SmallVector<Value> AttentionOp::buildWithoutDropout(OpBuilder &builder,
                                                    const IRMapping &mapping) {
  AttentionForm form = getForm();
  form.rate.reset();
  auto mapped = [&](Value value) {
    return value ? mapping.lookupOrDefault(value) : Value();
  };
  auto kept = AttentionOp::create(builder, getLoc(), mapped(getQuery()),
                                  mapped(getKey()), mapped(getValue()), form,
                                  mapped(getBias()), mapped(getMask()));
  copyProvenance(*this, kept);
  return {kept.getResult(), kept.getLse()};
}

FailureOr<SmallVector<Value>>
AttentionOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients,
                           ArrayRef<bool> needed) {
  if (resultGradients[1])
    return emitOpError(
        "has no gradient through lse, which is a residual of its backward");
  SmallVector<Value> operands{resultGradients[0], getQuery(),  getKey(),
                              getValue(),         getResult(), getLse()};
  llvm::append_range(operands, getOperands().drop_front(3));
  SmallVector<Type> types{getQuery().getType(), getKey().getType(),
                          getValue().getType()};
  bool needsBias = getBias() && needed[3];
  if (needsBias)
    types.push_back(getBias().getType());
  OperationState state(getLoc(), AttentionGradOp::getOperationName());
  AttentionGradOp::Properties &properties =
      state.getOrAddProperties<AttentionGradOp::Properties>();
  for (NamedAttribute attribute : (*this)->getAttrs())
    if (attribute.getName() != getOperandSegmentSizesAttrName())
      state.addAttribute(attribute.getName(), attribute.getValue());
  llvm::copy(ArrayRef<int32_t>{1, 1, 1, 1, 1, 1, getBias() ? 1 : 0,
                               getMask() ? 1 : 0,
                               static_cast<int32_t>(getCounters().size())},
             properties.operandSegmentSizes.begin());
  state.addOperands(operands);
  state.addTypes(types);
  Operation *gradient = builder.create(state);
  SmallVector<Value> gradients(gradient->getResults());
  gradients.resize(getNumOperands());
  return gradients;
}

/// The products of queries and keys that an attention computes have
/// `widths` multiply-adds for each pair.
template <typename Op>
static Cost costOf(Op op, int64_t widths) {
  AttentionSizes sizes = op.getSizes();
  Cost cost = elementwiseCost(op);
  cost.flops =
      2 * sizes.batch * sizes.heads * countPairs(op.getForm(), sizes) * widths;
  return cost;
}

Cost AttentionOp::getCost() {
  AttentionSizes sizes = getSizes();
  return costOf(*this, sizes.width + sizes.valueWidth);
}

Cost AttentionGradOp::getCost() {
  // Recomputed scores, dP, and the three gradients.
  AttentionSizes sizes = getSizes();
  return costOf(*this, 3 * sizes.width + 2 * sizes.valueWidth);
}

/// Reads the operands that forward and backward share; `first` is the number of
/// the query's.
template <typename Op>
static AttentionTensors readTensors(Op op, ArrayRef<Tensor> operands,
                                    unsigned first, unsigned optional) {
  AttentionTensors tensors;
  tensors.query = &operands[first];
  tensors.key = &operands[first + 1];
  tensors.value = &operands[first + 2];
  tensors.bias = op.getBias() ? &operands[optional++] : nullptr;
  tensors.mask = op.getMask() ? &operands[optional++] : nullptr;
  tensors.counters = operands.drop_front(optional);
  return tensors;
}

LogicalResult AttentionOp::evaluate(ArrayRef<Tensor> operands,
                                    MutableArrayRef<Tensor> results) {
  evaluateAttention(getForm(), readTensors(*this, operands, 0, 3), results[0],
                    results[1]);
  return success();
}

LogicalResult AttentionGradOp::evaluate(ArrayRef<Tensor> operands,
                                        MutableArrayRef<Tensor> results) {
  evaluateAttentionGrad(getForm(), readTensors(*this, operands, 1, 6),
                        operands[0], operands[4], operands[5], results[0],
                        results[1], results[2],
                        getBiasGradient() ? &results[3] : nullptr);
  return success();
}
