// Evaluation on whole tensors.

#include <random>

#include "compiler/evaluate/Evaluator.h"
#include "dialects/graph/Boundary.h"
#include "dialects/graph/Scan.h"
#include "dialects/sharding/Sharding.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::evaluate;

using Values = llvm::DenseMap<Value, Tensor>;

static LogicalResult evaluateBlock(Block &block, Values &values,
                                   Rounding rounding);

static FailureOr<SmallVector<Tensor>>
evaluateMicrobatches(graph::MicrobatchesOp op, ArrayRef<Tensor> operands,
                     const Values &outer, Rounding rounding) {
  ArrayRef<Tensor> of = operands.take_front(op.getOf().size());
  SmallVector<Tensor> carried(operands.drop_front(of.size()));
  SmallVector<Tensor> sums;
  for (int64_t i = 0, count = op.getCount(); i < count; ++i) {
    Values values = outer;
    Tensor index(cast<RankedTensorType>(op.getIndex().getType()));
    index.integers[0] = i;
    values[op.getIndex()] = index;
    for (auto [argument, tensor] : llvm::zip_equal(op.getSlices(), of)) {
      SmallVector<int64_t> start(tensor.getRank(), 0), size = tensor.shape;
      start[0] = i;
      size[0] = 1;
      values[argument] = tensor.slice(start, size)
                             .reshaped(ArrayRef(tensor.shape).drop_front());
    }
    for (auto [argument, tensor] : llvm::zip_equal(op.getCarried(), carried))
      values[argument] = tensor;
    if (failed(evaluateBlock(op.getBody().front(), values, rounding)))
      return failure();
    auto yield = cast<graph::YieldOp>(op.getBody().front().getTerminator());
    for (auto [k, value] : llvm::enumerate(yield.getSum())) {
      const Tensor &part = values[value];
      if (i == 0) {
        sums.push_back(part);
        continue;
      }
      for (int64_t e = 0, n = part.size(); e < n; ++e)
        sums[k].set(e, sums[k].at(e) + part.at(e));
      sums[k].round(rounding);
    }
    for (auto [tensor, value] : llvm::zip_equal(carried, yield.getCarry()))
      tensor = values[value];
  }
  llvm::append_range(sums, carried);
  return sums;
}

FailureOr<SmallVector<Tensor>>
polyrank::evaluate::evaluateOp(Operation *op, ArrayRef<Tensor> operands,
                               Rounding rounding) {
  if (op->getDialect() && op->getDialect()->getNamespace() ==
                              sharding::ShardingDialect::getDialectNamespace())
    return SmallVector<Tensor>(operands);
  auto graphOp = dyn_cast<graph::GraphOp>(op);
  if (!graphOp)
    return op->emitOpError("cannot be evaluated"), failure();
  SmallVector<Tensor> results;
  for (Value result : op->getResults())
    results.emplace_back(cast<RankedTensorType>(result.getType()));
  auto evaluate = [&](graph::GraphOp each, ArrayRef<Tensor> inputs,
                      MutableArrayRef<Tensor> outputs) -> LogicalResult {
    if (failed(each.evaluate(inputs, outputs)))
      return failure();
    for (Tensor &output : outputs)
      output.round(rounding);
    return success();
  };
  auto scan = dyn_cast<graph::ScanOp>(op);
  if (failed(scan ? graph::evaluateScan(scan, operands, results, evaluate)
                  : evaluate(graphOp, operands, results)))
    return failure();
  return results;
}

static LogicalResult evaluateBlock(Block &block, Values &values,
                                   Rounding rounding) {
  for (Operation &op : block.without_terminator()) {
    SmallVector<Tensor> operands;
    for (Value operand : op.getOperands())
      operands.push_back(values[operand]);
    FailureOr<SmallVector<Tensor>> results;
    if (auto microbatches = dyn_cast<graph::MicrobatchesOp>(op))
      results = evaluateMicrobatches(microbatches, operands, values, rounding);
    else
      results = evaluateOp(&op, operands, rounding);
    if (failed(results))
      return failure();
    for (auto [result, tensor] : llvm::zip_equal(op.getResults(), *results))
      values[result] = std::move(tensor);
  }
  return success();
}

FailureOr<SmallVector<Tensor>> polyrank::evaluate::evaluateGlobal(
    func::FuncOp function, ArrayRef<Tensor> arguments, Rounding rounding) {
  if (arguments.size() != function.getNumArguments())
    return function.emitError() << "takes " << function.getNumArguments()
                                << " arguments, given " << arguments.size();
  Values values;
  for (auto [argument, tensor] :
       llvm::zip_equal(function.getArguments(), arguments)) {
    auto type = cast<RankedTensorType>(argument.getType());
    if (type.getShape() != ArrayRef<int64_t>(tensor.shape))
      return function.emitError() << "argument " << argument.getArgNumber()
                                  << " is " << type << ", given another shape";
    values[argument] = tensor;
  }
  Block &body = function.getBody().front();
  if (failed(evaluateBlock(body, values, rounding)))
    return failure();
  SmallVector<Tensor> results;
  for (Value value : body.getTerminator()->getOperands())
    results.push_back(values[value]);
  return results;
}

SmallVector<Tensor>
polyrank::evaluate::randomArguments(const JointFunction &joint, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, 0.5);
  SmallVector<Tensor> arguments;
  for (auto [function, number] : joint.getArguments()) {
    graph::Boundary boundary(function);
    Tensor &tensor =
        arguments.emplace_back(getGlobalType(function, number, false));
    auto state = boundary.getArgument<graph::StateAttr>(number);
    FloatAttr init = state ? state.getInit() : FloatAttr();
    auto rate = boundary.getArgument<graph::LearningRateAttr>(number);
    auto input = boundary.getArgument<graph::InputAttr>(number);
    std::optional<int64_t> range = input ? input.getRange() : std::nullopt;
    for (int64_t i = 0, n = tensor.size(); i < n; ++i) {
      if (init)
        tensor.set(i, init.getValueAsDouble());
      else if (rate)
        tensor.set(i, rate.getRate(0));
      else if (tensor.isFloat())
        tensor.floats[i] = normal(random);
      else
        tensor.integers[i] = random() % (tensor.elementType.isInteger(1) ? 2
                                         : range ? *range
                                                 : 4);
    }
  }
  return arguments;
}
