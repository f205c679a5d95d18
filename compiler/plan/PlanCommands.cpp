// Writes the commands of a plan.

#include "compiler/plan/PlanBuilder.h"
#include "dialects/graph/Provenance.h"
#include "support/EnumNames.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::plan;

static_assert(
    int(fb::Phase::MAX) == graph::getMaxEnumValForPhase() &&
    agreeOn<graph::Phase, fb::Phase, graph::getMaxEnumValForPhase() + 1>);

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// The number of elements in dims [begin, end) of `type`.
static int64_t extent(RankedTensorType type, int64_t begin, int64_t end) {
  return graph::numElements(type.getShape().slice(begin, end - begin));
}

/// The user's node that a command comes from: by name, else by module scope.
static std::string getOrigin(Operation *op) {
  if (auto name = op->getLoc()->findInstanceOf<NameLoc>())
    return name.getName().str();
  if (StringAttr origin = graph::getOrigin(op))
    return origin.str();
  if (StringRef scope = graph::getScope(op); !scope.empty())
    return scope.str();
  return op->getName().getStringRef().str();
}

/// The phase of a command: its `graph.phase`, but not before the phase of what
/// it reads. So a kernel of ops of several phases is in the earliest phase in
/// which it can run and something may wait for it.
fb::Phase CommandWriter::getPhase(Operation *op) {
  auto phase =
      fb::Phase(graph::getMarkedPhase(op).value_or(graph::Phase::Forward));
  for (Value operand : op->getOperands())
    phase = std::max(phase, phases.lookup(operand));
  for (Value result : op->getResults())
    phases[result] = phase;
  return phase;
}

uint32_t CommandWriter::getGroup(rank::AxesAttr axes) {
  auto [it, isNew] = groups.try_emplace(axes, program.groups.size());
  if (isNew) {
    program.groups.push_back(std::make_unique<fb::AxisListT>());
    program.groups.back()->axes = getAxes(axes.getAxes());
  }
  return it->second;
}

std::unique_ptr<fb::BufferRef> CommandWriter::refer(rank::BufferAttr buffer) {
  return getReference(buffer,
                      buffer.getAxes() ? 1 + getGroup(buffer.getAxes()) : 0);
}

LogicalResult CommandWriter::writeLaunch(rank::LaunchOp op,
                                         fb::CommandT &command) {
  auto kernel = kernelNumbers.find(op.getKernel().str());
  if (kernel == kernelNumbers.end())
    return op.emitOpError("launches a kernel that was not compiled");
  const target::CompiledKernel &compiled = kernels.kernels[kernel->second];
  fb::LaunchT launch;
  launch.kernel = kernel->second;
  for (Value input : op.getInputs())
    launch.inputs.push_back(*refer(input));
  for (Value output : op.getOutputs())
    launch.outputs.push_back(*refer(output));
  launch.flops = compiled.flops;
  launch.bytes = compiled.bytesRead + compiled.bytesWritten;
  auto target = target::getKernelTarget(op);
  if (failed(target) || failed(target->writeLaunch(
                            kernelOps.lookupNearestSymbolFrom<rank::KernelOp>(
                                op, op.getKernelAttr()),
                            launch)))
    return failure();
  command.body.Set(std::move(launch));
  return success();
}

/// The kind of a call has the name of its op.
static std::optional<fb::CallKind> getCallKind(rank::LibraryCallOp op) {
  for (fb::CallKind kind : fb::EnumValuesCallKind())
    if (op->getName().stripDialect() == fb::EnumNameCallKind(kind))
      return kind;
  return std::nullopt;
}

LogicalResult CommandWriter::writeCall(rank::LibraryCallOp op,
                                       fb::CommandT &command) {
  std::optional<fb::CallKind> kind = getCallKind(op);
  if (!kind)
    return op.emitOpError("is of no kind of calls that a plan has");
  fb::CallT call;
  call.kind = *kind;
  for (OpOperand &operand : op->getOpOperands()) {
    rank::BufferAttr buffer = rank::getBuffer(operand.get());
    int64_t begin = op.getReadBegin(operand.getOperandNumber());
    call.reads.push_back(
        *refer(buffer.getPart(begin, buffer.getSize() - begin)));
  }
  for (Value result : op->getResults())
    call.writes.push_back(*refer(result));
  if (rank::BufferAttr scratch = op.getScratchAttr())
    call.scratch = refer(scratch);
  call.flops = op.getFlops();
  call.bytes = op.getBytes();
  call.text = op.getText();
  FailureOr<fb::ElementType> factors =
      getDType(op, typeOf(op->getOperand(0)).getElementType());
  if (failed(factors))
    return failure();
  call.factors = *factors;
  auto target = target::getLibraryTarget(op);
  if (failed(target) || failed(target->writeCall(op, call)))
    return failure();
  command.body.Set(std::move(call));
  return success();
}

void CommandWriter::writeCopy(Operation *op, fb::CommandT &command) {
  RankedTensorType type = typeOf(op->getOperand(0));
  fb::CopyT copy;
  copy.input = refer(op->getOperand(0));
  copy.output = refer(op->getResult(0));
  copy.element = rank::getElementByteSize(type.getElementType());
  copy.inner = type.getNumElements();
  if (auto slice = dyn_cast<rank::SliceOp>(op)) {
    int64_t dim = slice.getDim();
    copy.count = slice.getAxes().getGroupSize();
    copy.outer = extent(type, 0, dim);
    copy.inner = extent(type, dim, type.getRank()) / copy.count;
    copy.axes = std::make_unique<fb::AxisListT>();
    copy.axes->axes = getAxes(slice.getAxes().getAxes());
  }
  command.body.Set(std::move(copy));
}

uint32_t CommandWriter::writeReason(std::optional<sharding::ReasonAttr> why,
                                    uint64_t sentBytes) {
  auto reason = std::make_unique<fb::ReasonT>();
  if (why) {
    reason->value = why->getValue();
    reason->op = why->getUser();
    reason->from_layout = why->getFrom();
    reason->to_layout = why->getTo();
    reason->constraint = why->getConstraint();
    for (sharding::ReasonAttr member : why->getMembers())
      if (!member.getUser().empty())
        reason->members.push_back(member.getUser().str());
  }
  reason->bytes = sentBytes;
  program.reasons.push_back(std::move(reason));
  return program.reasons.size() - 1;
}

LogicalResult CommandWriter::writeCollective(rank::CollectiveOp op,
                                             fb::CommandT &command) {
  fb::CollectiveT collective;
  collective.kind = fb::CollectiveKind(op.getCollectiveKind());
  collective.reduction = fb::Reduction(op.getReduction());
  collective.permutation.assign(op.getSourceMembers().begin(),
                                op.getSourceMembers().end());
  collective.group = getGroup(op.getAxes());
  collective.id = op.getId();
  collective.why = writeReason(op.getWhy(), op.getSentBytes());
  if (op.isStarted())
    collective.request = requests[op] = requests.size() + 1;
  FailureOr<fb::ElementType> dtype =
      getDType(op, typeOf(op->getOperand(0)).getElementType());
  if (failed(dtype))
    return failure();
  collective.dtype = *dtype;
  for (unsigned i = 0; i < op->getNumOperands(); ++i) {
    RankedTensorType type = typeOf(op->getOperand(i));
    if (type.getElementType() != typeOf(op->getOperand(0)).getElementType())
      return op->emitOpError("moves ")
             << typeOf(op->getOperand(0)).getElementType() << " and "
             << type.getElementType() << " together; a bucket has one type";
    runtime::TransferShape shape = op.getTransferShape(i);
    auto transfer = std::make_unique<fb::TransferT>();
    transfer->input = refer(op->getOperand(i));
    transfer->output = refer(op->getResult(i));
    transfer->outer = shape.outer, transfer->inner = shape.inner;
    transfer->x = shape.x, transfer->middle = shape.middle;
    transfer->y = shape.y, transfer->split_first = shape.splitFirst;
    transfer->low = shape.low, transfer->high = shape.high;
    collective.transfers.push_back(std::move(transfer));
  }
  command.body.Set(std::move(collective));
  return success();
}

template <typename Body, typename Op>
Body CommandWriter::writeTransfer(Op op) {
  constexpr bool sends = std::is_same_v<Op, rank::SendOp>;
  Body body;
  body.group = getGroup(op.getAxes());
  body.from = op.getFrom(), body.to = op.getTo();
  body.slots = op.getSlots();
  body.id = op.getId();
  if constexpr (sends) {
    body.input = refer(op.getInput());
    body.bytes = body.input->size();
  } else {
    body.output = refer(op.getOutput());
    body.bytes = body.output->size();
  }
  body.why = writeReason(op.getWhy(), sends ? body.bytes : 0);
  return body;
}

LogicalResult CommandWriter::writeLoop(rank::LoopOp op, fb::CommandT &command) {
  fb::LoopT loop;
  loop.count = op.getCount();
  for (BlockArgument argument : op.getBody().getArguments())
    phases[argument] = command.phase;
  for (Operation &inner : op.getBody().front().without_terminator())
    if (failed(write(inner, loop.commands)))
      return failure();
  command.body.Set(std::move(loop));
  return success();
}

LogicalResult
CommandWriter::write(Operation &op,
                     std::vector<std::unique_ptr<fb::CommandT>> &commands) {
  fb::Phase phase = getPhase(&op);
  if (auto segment = dyn_cast<rank::SegmentOp>(op.getParentOp());
      segment && isa<rank::YieldOp>(op))
    for (auto [number, yielded] :
         llvm::zip_equal(segment.getGives(), op.getOperands())) {
      Value result = segment->getParentOp()->getResult(number);
      phases[result] = std::max(phases.lookup(result), phases.lookup(yielded));
    }
  // Loops and terminators are segments; views and constants run no command.
  auto known = dyn_cast<rank::CommandOp>(op);
  if (isa<rank::YieldOp, rank::MicrobatchesOp, func::ReturnOp>(op) ||
      (known && known.isWrittenAtLoad()))
    return success();
  bool isView = known && op.getNumResults() && known.getViewOffset(0, 0);
  if (isView && !isa<rank::WaitOp>(op))
    return success();
  auto command = std::make_unique<fb::CommandT>();
  command->origin = getOrigin(&op);
  command->phase = phase;
  command->queue = queues.get(&op);
  // The time to copy a value to a slot and from it is not part of a plan.
  if (auto send = dyn_cast<rank::SendOp>(op))
    command->picoseconds = durations.getArrival(send);
  else if (!isa<rank::RecvOp>(op))
    command->picoseconds = durations.get(&op);
  LogicalResult result =
      llvm::TypeSwitch<Operation *, LogicalResult>(&op)
          .Case([&](rank::LaunchOp launch) {
            return writeLaunch(launch, *command);
          })
          .Case([&](rank::LibraryCallOp call) {
            return writeCall(call, *command);
          })
          .Case([&](rank::LoopOp loop) { return writeLoop(loop, *command); })
          .Case<rank::CopyOp, rank::SliceOp>([&](Operation *copy) {
            writeCopy(copy, *command);
            return success();
          })
          .Case([&](rank::SendOp send) {
            command->body.Set(writeTransfer<fb::SendT>(send));
            return success();
          })
          .Case([&](rank::RecvOp receive) {
            command->body.Set(writeTransfer<fb::ReceiveT>(receive));
            return success();
          })
          .Case([&](rank::WaitOp wait) {
            fb::WaitT body;
            body.request = requests.at(wait.getCollective());
            command->body.Set(body);
            return success();
          })
          .Default([&](Operation *other) -> LogicalResult {
            if (auto collective = dyn_cast<rank::CollectiveOp>(other))
              return writeCollective(collective, *command);
            return other->emitOpError("is not a command of a plan");
          });
  commands.push_back(std::move(command));
  return result;
}
