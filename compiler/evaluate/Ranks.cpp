// Evaluation of localized programs: ranks in one process.

#include "compiler/evaluate/RankEvaluator.h"

#include "dialects/graph/Blocks.h"
#include "dialects/kernel/Kernel.h"
#include "dialects/rank/Rank.h"
#include "llvm/ADT/TypeSwitch.h"
#include <map>

using namespace mlir;
using namespace polyrank;
using namespace polyrank::evaluate;

/// Returns the elements of a tensor of shape `shape` that start at `offset`, in
/// row-major order.
static Tensor elements(const Tensor &value, int64_t offset,
                       ArrayRef<int64_t> shape) {
  Tensor result(value.elementType, shape);
  for (int64_t i = 0, n = result.size(); i < n; ++i)
    result.copy(i, value, offset + i);
  return result;
}

LogicalResult RankEvaluator::runCollective(rank::CollectiveOp op) {
  ArrayRef<sharding::AxisRef> axes = op.getAxes().getAxes();
  if (exchange && rank::spansPrograms(op)) {
    Exchange::Meeting &meeting =
        exchange->come(number, op, devices,
                       [&](Value value, int64_t device) -> const Tensor & {
                         return at(value, device);
                       });
    if (!op.isStarted())
      return endCollective(op, meeting);
    meetings[op] = &meeting;
    return success();
  }
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    values[op->getResult(i)] = each([&](int64_t device) {
      SmallVector<Tensor> parts;
      for (int64_t peer : mesh.getGroup(device, axes))
        parts.push_back(at(op->getOperand(i), peer));
      return op.evaluate(parts, mesh.getLinearIndex(device, axes), i);
    });
  return success();
}

LogicalResult RankEvaluator::endCollective(rank::CollectiveOp op,
                                           Exchange::Meeting &meeting) {
  if (failed(exchange->awaitAll(number, op, devices, meeting)))
    return failure();
  ArrayRef<sharding::AxisRef> axes = op.getAxes().getAxes();
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    values[op->getResult(i)] = each([&](int64_t device) {
      SmallVector<Tensor> parts;
      for (int64_t peer : mesh.getGroup(device, axes))
        parts.push_back(meeting.members.at(peer).operands[i]);
      return op.evaluate(parts, mesh.getLinearIndex(device, axes), i);
    });
  return success();
}

LogicalResult RankEvaluator::checkTransfer(Operation *op,
                                           const rank::Transfer &transfer) {
  if (!exchange)
    return op->emitOpError("stands in a function that all ranks run");
  for (int64_t device : devices)
    if ((transfer.isSend ? transfer.getSender(device)
                         : transfer.getReceiver(device)) != device)
      return op->emitOpError("is run by device ")
             << device << ", which is not its end of the transfer";
  return success();
}

LogicalResult
RankEvaluator::awaitTransfer(Operation *op, const rank::Transfer &transfer,
                             llvm::function_ref<bool(int64_t)> isThere) {
  std::string what;
  llvm::raw_string_ostream(what)
      << "@" << op->getParentOfType<func::FuncOp>().getName() << " waits for "
      << (transfer.isSend ? "one of the slots" : "the next value") << " of id "
      << transfer.id;
  return exchange->interleaving.await(number, op, what, [&] {
    return llvm::all_of(devices, [&](int64_t device) {
      return isThere(transfer.getSender(device));
    });
  });
}

LogicalResult RankEvaluator::send(rank::SendOp op,
                                  const rank::Transfer &transfer) {
  auto sentBy = [&](int64_t device) -> std::deque<Tensor> & {
    return exchange->getSent(transfer.id, device);
  };
  if (failed(awaitTransfer(op, transfer, [&](int64_t sender) {
        return static_cast<int64_t>(sentBy(sender).size()) < transfer.slots;
      })))
    return failure();
  for (int64_t device : devices)
    sentBy(device).push_back(at(op.getInput(), device));
  return success();
}

LogicalResult RankEvaluator::receive(rank::RecvOp op,
                                     const rank::Transfer &transfer) {
  auto sentBy = [&](int64_t device) -> std::deque<Tensor> & {
    return exchange->getSent(transfer.id, device);
  };
  if (failed(awaitTransfer(op, transfer, [&](int64_t sender) {
        return !sentBy(sender).empty();
      })))
    return failure();
  values[op.getOutput()] = each([&](int64_t device) {
    std::deque<Tensor> &sent = sentBy(transfer.getSender(device));
    Tensor next = std::move(sent.front());
    sent.pop_front();
    return next;
  });
  for (int64_t device : devices)
    if (RankedTensorType type = at(op.getOutput(), device).getType();
        type != transfer.type)
      return op.emitOpError("receives ")
             << transfer.type << " where " << type << " was sent";
  return success();
}

/// Runs an op that each device executes alone, by its `evaluate`.
template <typename Op>
LogicalResult RankEvaluator::runAlone(Op op) {
  SmallVector<Devices> results(op->getNumResults());
  for (Devices &result : results)
    result.resize(numDevices);
  for (int64_t device : devices) {
    SmallVector<Tensor> operands, outputs;
    for (Value operand : op->getOperands())
      operands.push_back(at(operand, device));
    for (Type type : op->getResultTypes())
      outputs.emplace_back(cast<RankedTensorType>(type));
    LogicalResult done = success();
    if constexpr (std::is_same_v<Op, kernel::LoopsOp>)
      done = op.evaluate(operands, outputs, rounding);
    else
      done = op.evaluate(operands, outputs);
    if (failed(done))
      return failure();
    for (auto [result, output] : llvm::zip_equal(results, outputs))
      result[device] = std::move(output);
  }
  for (auto [value, result] : llvm::zip_equal(op->getResults(), results))
    values[value] = std::move(result);
  return success();
}

LogicalResult RankEvaluator::runLaunch(rank::LaunchOp op) {
  auto kernel = SymbolTable::lookupNearestSymbolFrom<rank::KernelOp>(
      op, op.getKernelAttr());
  Block &body = kernel.getBody().front();
  RankEvaluator inner(mesh, rounding);
  inner.devices = devices;
  for (auto [argument, input] :
       llvm::zip_equal(body.getArguments(), op.getInputs()))
    inner.values[argument] = values[input];
  if (failed(inner.runBlock(body)))
    return failure();
  for (auto [output, value] :
       llvm::zip_equal(op.getOutputs(), body.getTerminator()->getOperands()))
    values[output] = inner.values[value];
  return success();
}

/// Sets block arguments: first the slices of `of`, then the values handed on
/// from the previous microbatch.
void RankEvaluator::enterMicrobatch(int64_t number,
                                    Block::BlockArgListType arguments,
                                    ValueRange of, ArrayRef<Devices> handed) {
  for (auto [argument, source] : llvm::zip(arguments, of)) {
    ArrayRef<int64_t> shape =
        cast<RankedTensorType>(argument.getType()).getShape();
    values[argument] = each([&](int64_t device) {
      return elements(at(source, device), number * graph::numElements(shape),
                      shape);
    });
  }
  for (auto [argument, devices] :
       llvm::zip_equal(arguments.drop_front(of.size()), handed))
    values[argument] = devices;
}

/// Builds a stash from its slots, in order; missing slots hold NaN (integers:
/// 1).
static Tensor stack(RankedTensorType type,
                    const std::map<int64_t, Tensor> &slots) {
  Tensor stash(type);
  int64_t part = stash.size() / type.getDimSize(0);
  if (stash.isFloat())
    std::fill(stash.floats.begin(), stash.floats.end(), NAN);
  else
    std::fill(stash.integers.begin(), stash.integers.end(), 1);
  for (const auto &[slot, tensor] : slots)
    if (stash.isFloat())
      llvm::copy(tensor.floats, stash.floats.begin() + slot * part);
    else
      llvm::copy(tensor.integers, stash.integers.begin() + slot * part);
  return stash;
}

LogicalResult RankEvaluator::runMicrobatches(rank::MicrobatchesOp op) {
  SmallVector<rank::SegmentOp, 4> segments = op.getSegments();
  // By slot; a result without slots uses number 0.
  std::vector<std::map<int64_t, Devices>> given(op.getNumResults());
  for (auto run : op.getRuns()) {
    rank::SegmentOp segment = segments[run.segment];
    auto slotOf = [&](int64_t result) {
      int64_t slots = op.getSlots(result);
      return slots ? run.microbatch % slots : 0;
    };
    std::vector<Devices> taken;
    for (int64_t result : segment.getTakes()) {
      auto found = given[result].find(slotOf(result));
      taken.push_back(found == given[result].end()
                          ? values[op.getInitial(result)]
                          : found->second);
    }
    Block &block = segment.getBody().front();
    enterMicrobatch(run.microbatch, block.getArguments(), op.getOf(), taken);
    if (failed(runBlock(block)))
      return failure();
    for (auto [result, value] :
         llvm::zip_equal(segment.getGives(), segment.getYield().getOperands()))
      given[result][slotOf(result)] = values[value];
  }
  for (OpResult result : op.getResults()) {
    const std::map<int64_t, Devices> &slots = given[result.getResultNumber()];
    if (!op.getSlots(result.getResultNumber())) {
      values[result] = slots.at(0);
      continue;
    }
    values[result] = each([&](int64_t device) {
      std::map<int64_t, Tensor> parts;
      for (const auto &[slot, devices] : slots)
        parts.emplace(slot, devices[device]);
      return stack(cast<RankedTensorType>(result.getType()), parts);
    });
  }
  return success();
}

LogicalResult RankEvaluator::runLoop(rank::LoopOp op) {
  Block &block = op.getBody().front();
  unsigned numStacks = op.getNumStacks();
  std::vector<Devices> carried;
  for (Value value : op.getCarry())
    carried.push_back(values[value]);
  std::vector<std::map<int64_t, Devices>> given(numStacks); // by element
  for (auto [argument, use] : llvm::zip_equal(
           block.getArguments().take_back(op.getUses().size()), op.getUses())) {
    Devices used = values[use];
    values[argument] = std::move(used);
  }
  for (int64_t i = 0, count = op.getCount(); i < count; ++i) {
    int64_t number = op.getReversed() ? count - 1 - i : i;
    enterMicrobatch(number, block.getArguments().drop_back(op.getUses().size()),
                    op.getOf(), carried);
    if (failed(runBlock(block)))
      return failure();
    for (auto [k, value] : llvm::enumerate(op.getYield().getOperands()))
      if (k < numStacks)
        given[k][number] = values[value];
      else
        carried[k - numStacks] = values[value];
  }
  for (OpResult result : op.getResults())
    if (unsigned k = result.getResultNumber(); k >= numStacks)
      values[result] = carried[k - numStacks];
    else
      values[result] = each([&](int64_t device) {
        std::map<int64_t, Tensor> parts;
        for (const auto &[number, devices] : given[k])
          parts.emplace(number, devices[device]);
        return stack(cast<RankedTensorType>(result.getType()), parts);
      });
  return success();
}

LogicalResult RankEvaluator::runMicrobatches(graph::MicrobatchesOp op) {
  Block &block = op.getBody().front();
  auto yield = cast<graph::YieldOp>(block.getTerminator());
  std::vector<Devices> carried, sums;
  for (Value value : op.getCarry())
    carried.push_back(values[value]);
  for (int64_t i = 0, count = op.getCount(); i < count; ++i) {
    BlockArgument number = block.getArgument(0);
    Tensor index(cast<RankedTensorType>(number.getType()));
    index.integers[0] = i;
    values[number] = each([&](int64_t) { return index; });
    enterMicrobatch(i, block.getArguments().drop_front(), op.getOf(), carried);
    if (failed(runBlock(block)))
      return failure();
    for (auto [k, value] : llvm::enumerate(yield.getSum())) {
      if (i == 0)
        sums.push_back(values[value]);
      else
        sums[k] = each([&, k = k, value = value](int64_t device) {
          return graph::reduce({sums[k][device], at(value, device)},
                               sharding::ReductionKind::Sum);
        });
    }
    for (auto [devices, value] : llvm::zip_equal(carried, yield.getCarry()))
      devices = values[value];
  }
  llvm::append_range(sums, carried);
  for (auto [result, devices] : llvm::zip_equal(op.getResults(), sums))
    values[result] = devices;
  return success();
}

LogicalResult RankEvaluator::runOp(Operation &op) {
  if (failed(compute(op)))
    return failure();
  if (rounding == Rounding::OfTypes)
    for (Value result : op.getResults())
      if (auto found = values.find(result); found != values.end())
        for (int64_t device : devices)
          found->second[device].round();
  return success();
}

LogicalResult RankEvaluator::compute(Operation &op) {
  if (auto collective = dyn_cast<rank::CollectiveOp>(op))
    return runCollective(collective);
  if (auto transfer = rank::getTransfer(&op))
    if (failed(checkTransfer(&op, *transfer)))
      return failure();
  return llvm::TypeSwitch<Operation *, LogicalResult>(&op)
      .Case<graph::GraphOp, kernel::LoopsOp, rank::LibraryCallOp>(
          [&](auto op) { return runAlone(op); })
      .Case([&](rank::MicrobatchesOp loop) { return runMicrobatches(loop); })
      .Case([&](graph::MicrobatchesOp loop) { return runMicrobatches(loop); })
      .Case([&](rank::LoopOp loop) { return runLoop(loop); })
      .Case([&](rank::LaunchOp launch) { return runLaunch(launch); })
      .Case([&](rank::ConstantOp constant) {
        values[constant.getResult()] = each([&](int64_t) {
          return Tensor::fromAttribute(
              cast<DenseElementsAttr>(constant.getValue()));
        });
        return success();
      })
      .Case([&](rank::AxisIndexOp index) {
        values[index.getResult()] = each([&](int64_t device) {
          Tensor result(cast<RankedTensorType>(index.getResult().getType()));
          result.integers[0] =
              mesh.getLinearIndex(device, index.getAxes().getAxes());
          return result;
        });
        return success();
      })
      .Case([&](rank::SliceOp slice) {
        values[slice.getResult()] = each([&](int64_t device) {
          return graph::blockOf(
              at(slice.getInput(), device), slice.getDim(),
              slice.getAxes().getGroupSize(),
              mesh.getLinearIndex(device, slice.getAxes().getAxes()));
        });
        return success();
      })
      .Case([&](rank::ViewOp view) {
        values[view.getResult()] = each([&](int64_t device) {
          return elements(at(view.getInput(), device), view.getOffset(),
                          view.getResult().getType().getShape());
        });
        return success();
      })
      .Case([&](rank::SendOp op) { return send(op, *rank::getTransfer(op)); })
      .Case(
          [&](rank::RecvOp op) { return receive(op, *rank::getTransfer(op)); })
      .Case([&](rank::WaitOp wait) {
        rank::CollectiveOp op = wait.getCollective();
        if (Exchange::Meeting *meeting = meetings.lookup(op)) {
          meetings.erase(op);
          if (failed(endCollective(op, *meeting)))
            return failure();
        }
        for (auto [result, pending] :
             llvm::zip_equal(wait.getOutputs(), wait.getPending())) {
          Devices arrived = values[pending];
          values[result] = std::move(arrived);
        }
        return success();
      })
      .Case([&](rank::CopyOp copy) {
        // Copied first: inserting the result may rehash the map and move the
        // input.
        Devices copied = values[copy.getInput()];
        values[copy.getResult()] = std::move(copied);
        return success();
      })
      .Default([](Operation *other) {
        return other->emitOpError("is not an op of one device");
      });
}

LogicalResult RankEvaluator::runBlock(Block &block) {
  for (Operation &op : block.without_terminator())
    if (failed(runOp(op)))
      return failure();
  return success();
}

RankedTensorType polyrank::evaluate::getGlobalType(func::FuncOp function,
                                                   unsigned number,
                                                   bool isResult) {
  Attribute global = isResult
                         ? function.getResultAttr(number, rank::globalAttrName)
                         : function.getArgAttr(number, rank::globalAttrName);
  if (auto type = dyn_cast_if_present<TypeAttr>(global))
    return cast<RankedTensorType>(type.getValue());
  FunctionType type = function.getFunctionType();
  return cast<RankedTensorType>(isResult ? type.getResult(number)
                                         : type.getInput(number));
}

sharding::MeshAttr polyrank::evaluate::getMesh(func::FuncOp function) {
  for (bool isResult : {false, true})
    for (unsigned i = 0, count = isResult ? function.getNumResults()
                                          : function.getNumArguments();
         i < count; ++i)
      if (auto layout =
              sharding::getLayout(getGlobalType(function, i, isResult)))
        return layout.getMesh();
  return {};
}

Devices polyrank::evaluate::scatterArgument(const BoundaryValue &argument,
                                            const Tensor &value,
                                            int64_t numDevices, uint64_t seed) {
  sharding::LayoutAttr layout = sharding::getLayout(
      getGlobalType(argument.function, argument.number, false));
  return layout ? scatter(value, layout, seed) : Devices(numDevices, value);
}

FailureOr<Tensor>
polyrank::evaluate::assembleResult(const BoundaryValue &result,
                                   const Devices &parts) {
  func::FuncOp function = result.function;
  RankedTensorType type = getGlobalType(function, result.number, true);
  if (!sharding::getLayout(type))
    return parts.front();
  std::string reason;
  FailureOr<Tensor> whole = assemble(parts, type, reason);
  if (failed(whole))
    return function.emitError() << "result " << result.number << ": " << reason;
  return whole;
}

namespace {
struct RunningEvaluator : RunningProgram {
  RunningEvaluator(func::FuncOp function, Exchange *exchange, size_t number,
                   Rounding rounding)
      : body(function.getBody().front()),
        evaluator(exchange
                      ? RankEvaluator(*exchange, number, rounding)
                      : RankEvaluator(evaluate::getMesh(function), rounding)) {}
  void setArgument(Value argument, const Devices &parts) override {
    evaluator.values[argument] = parts;
  }
  LogicalResult run() override { return evaluator.runBlock(body); }
  Devices getResult(Value value) override { return evaluator.values[value]; }

  Block &body;
  RankEvaluator evaluator;
};
} // namespace

FailureOr<SmallVector<Tensor>>
polyrank::evaluate::evaluateRanks(const JointFunction &joint,
                                  ArrayRef<Tensor> arguments, uint64_t seed,
                                  Rounding rounding) {
  return evaluateTogether(
      joint, arguments, seed, /*interleaving=*/std::nullopt,
      [&](func::FuncOp function, Exchange *exchange,
          size_t number) -> std::unique_ptr<RunningProgram> {
        return std::make_unique<RunningEvaluator>(function, exchange, number,
                                                  rounding);
      });
}
