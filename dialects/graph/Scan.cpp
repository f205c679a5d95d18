// A loop over the elements of a dim: verifier, evaluation, cost.

#include "dialects/graph/Scan.h"

#include "dialects/graph/Parts.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::graph;

ScanYieldOp ScanOp::getYield() {
  return cast<ScanYieldOp>(getBody().front().getTerminator());
}

RankedTensorType ScanOp::getElementType(Type stack) {
  auto type = cast<RankedTensorType>(stack);
  return RankedTensorType::get(type.getShape().drop_front(),
                               type.getElementType());
}

bool ScanOp::isStack(Type type, int64_t count) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(type).getShape();
  return !shape.empty() && shape[0] == count;
}

RankedTensorType ScanOp::getStackType(int64_t count, Type element) {
  auto type = cast<RankedTensorType>(element);
  SmallVector<int64_t> shape = {count};
  llvm::append_range(shape, type.getShape());
  return RankedTensorType::get(shape, type.getElementType());
}

void ScanOp::build(OpBuilder &, OperationState &state, int64_t count,
                   bool isReversed, ValueRange of, ValueRange carry,
                   ValueRange uses, std::unique_ptr<Region> body) {
  auto yield = cast<ScanYieldOp>(body->front().getTerminator());
  for (Type element : yield.getStack().getTypes())
    state.addTypes(getStackType(count, element));
  state.addTypes(yield.getCarry().getTypes());
  state.addOperands(of);
  state.addOperands(carry);
  state.addOperands(uses);
  Properties &properties = state.getOrAddProperties<Properties>();
  Builder builder(state.getContext());
  properties.count = builder.getI64IntegerAttr(count);
  if (isReversed)
    properties.reversed = builder.getUnitAttr();
  properties.operandSegmentSizes = {static_cast<int32_t>(of.size()),
                                    static_cast<int32_t>(carry.size()),
                                    static_cast<int32_t>(uses.size())};
  state.addRegion(std::move(body));
}

static RankedTensorType withoutLayout(Type type) {
  return sharding::withLayout(cast<RankedTensorType>(type), nullptr);
}

LogicalResult ScanOp::verify() {
  int64_t count = getCount();
  if (count < 1)
    return emitOpError("[1] has ") << count << " iterations";
  SmallVector<Type> arguments, given;
  for (Type type : getOf().getTypes()) {
    if (!isStack(type, count))
      return emitOpError("[1] goes through ")
             << type << " in " << count << " iterations";
    arguments.push_back(getElementType(type));
  }
  for (auto types : {getCarry().getTypes(), getUses().getTypes()})
    for (Type type : types)
      arguments.push_back(withoutLayout(type));
  Block &block = getBody().front();
  if (TypeRange(block.getArgumentTypes()) != TypeRange(arguments))
    return emitOpError("[2] block arguments must be ") << arguments;
  auto yield =
      block.empty() ? ScanYieldOp() : dyn_cast<ScanYieldOp>(block.back());
  if (!yield || getNumResults() < getCarry().size() ||
      yield.getStack().size() != getNumStacks() ||
      yield.getCarry().size() != getCarry().size())
    return emitOpError("[3] must end in a graph.scan_yield of ")
           << getNumResults() << " values, the last " << getCarry().size()
           << " of them carried";
  for (Type type : getStacks().getTypes()) {
    if (!isStack(type, count))
      return emitOpError("[3] stacks ") << count << " elements in " << type;
    given.push_back(getElementType(type));
  }
  for (auto [operand, result] : llvm::zip_equal(getCarry(), getLast())) {
    if (withoutLayout(operand.getType()) != withoutLayout(result.getType()))
      return emitOpError("[3] carries ")
             << operand.getType() << " on as " << result.getType();
    given.push_back(withoutLayout(result.getType()));
  }
  if (TypeRange(yield->getOperandTypes()) != TypeRange(given))
    return emitOpError("[3] gives ")
           << yield->getOperandTypes() << " in an iteration, not " << given;
  for (Operation &op : block.without_terminator()) {
    auto dropping = dyn_cast<DroppingOp>(op);
    bool isComputed = isa<GraphOp>(op) && !isa<ScanOp, UniformOp>(op) &&
                      !(dropping && dropping.getDropRate());
    if (!isComputed)
      return (emitOpError("[4] holds a ") << op.getName())
                 .attachNote(op.getLoc())
             << "it stands here";
    for (Type type : op.getResultTypes())
      if (sharding::getLayout(type))
        return (emitOpError("[4] computes ")
                << type << "; what is in a scan has no layout")
                   .attachNote(op.getLoc())
               << "it is computed here";
  }
  return success();
}

LogicalResult ScanOp::evaluate(ArrayRef<Tensor> operands,
                               MutableArrayRef<Tensor> results) {
  return evaluateScan(
      *this, operands, results,
      [](GraphOp op, ArrayRef<Tensor> inputs, MutableArrayRef<Tensor> outputs) {
        return op.evaluate(inputs, outputs);
      });
}

LogicalResult graph::evaluateScan(ScanOp scan, ArrayRef<Tensor> operands,
                                  MutableArrayRef<Tensor> results,
                                  EvaluateOp evaluate) {
  llvm::DenseMap<Value, Tensor> values;
  ArrayRef<Tensor> of = operands.take_front(scan.getOf().size()),
                   uses = operands.take_back(scan.getUses().size());
  SmallVector<Tensor> carried(
      operands.slice(of.size(), scan.getCarry().size()));
  for (auto [argument, tensor] : llvm::zip_equal(scan.getUsed(), uses))
    values[argument] = tensor;
  for (int64_t i = 0, count = scan.getCount(); i < count; ++i) {
    int64_t number = scan.getReversed() ? count - 1 - i : i;
    for (auto [argument, tensor] : llvm::zip_equal(scan.getElements(), of)) {
      Tensor element(ScanOp::getElementType(tensor.getType()));
      element.copy(0, tensor, number * element.size(), element.size());
      values[argument] = std::move(element);
    }
    for (auto [argument, tensor] : llvm::zip_equal(scan.getCarried(), carried))
      values[argument] = std::move(tensor);
    for (Operation &op : scan.getBody().front().without_terminator()) {
      SmallVector<Tensor> inputs, outputs;
      for (Value operand : op.getOperands())
        inputs.push_back(values[operand]);
      for (Type type : op.getResultTypes())
        outputs.emplace_back(cast<RankedTensorType>(type));
      if (failed(evaluate(cast<GraphOp>(op), inputs, outputs)))
        return failure();
      for (auto [result, output] : llvm::zip_equal(op.getResults(), outputs))
        values[result] = std::move(output);
    }
    ScanYieldOp yield = scan.getYield();
    for (auto [stack, value] : llvm::zip(results, yield.getStack())) {
      const Tensor &element = values[value];
      stack.copy(number * element.size(), element, 0, element.size());
    }
    for (auto [tensor, value] : llvm::zip_equal(carried, yield.getCarry()))
      tensor = values[value];
  }
  for (auto [result, tensor] :
       llvm::zip_equal(results.drop_front(scan.getNumStacks()), carried))
    result = std::move(tensor);
  return success();
}

Cost ScanOp::getCost() {
  Cost cost;
  for (Operation &op : getBody().front().without_terminator()) {
    Cost one = cast<GraphOp>(op).getCost();
    cost.flops += one.flops * getCount();
    cost.bytesRead += one.bytesRead * getCount();
    cost.bytesWritten += one.bytesWritten * getCount();
  }
  return cost;
}
