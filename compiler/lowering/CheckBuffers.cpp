// check-buffers: checks that every read finds the value that was written.

#include <set>

#include "compiler/lowering/ArenaContents.h"
#include "compiler/lowering/BufferClasses.h"
#include "compiler/lowering/Passes.h"
#include "dialects/graph/Boundary.h"
#include "dialects/graph/Graph.h"
#include "dialects/rank/Programs.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::lowering;

namespace polyrank::lowering {
#define GEN_PASS_DEF_CHECKBUFFERS
#include "compiler/lowering/Passes.h.inc"
} // namespace polyrank::lowering

namespace {

/// Runs the function symbolically as device number `device` of the mesh.
class BufferChecker {
public:
  BufferChecker(func::FuncOp function, int64_t device,
                const rank::Aliasing &aliasing)
      : function(function), device(device), aliasing(aliasing) {}
  LogicalResult run();

private:
  rank::BufferAttr getBuffer(Value value);
  int64_t start(rank::BufferAttr buffer) const {
    return buffer.getOffset() + buffer.getShift(microbatch) +
           iteration * buffer.getEach() +
           getIndex(buffer.getAxes()) * buffer.getStep();
  }
  int64_t start(Value value) { return start(getBuffer(value)); }
  /// This device's index over `axes`; 0 if `axes` is null.
  int64_t getIndex(rank::AxesAttr axes) const {
    return axes ? axes.getMesh().getLinearIndex(device, axes.getAxes()) : 0;
  }
  bool mayOverlap(OpOperand &operand, OpResult result);
  bool overlap(rank::BufferAttr left, rank::BufferAttr right) const;
  bool overlap(Value left, Value right) {
    return overlap(getBuffer(left), getBuffer(right));
  }
  void write(Value value);
  LogicalResult read(OpOperand &operand);
  LogicalResult checkBounds(Operation *op, rank::BufferAttr buffer);
  LogicalResult checkMemory();
  LogicalResult checkBuffer(Operation *op, Value value);
  LogicalResult checkResults(Operation *op);
  LogicalResult checkScratch(rank::CommandOp op);
  LogicalResult runBlock(Block &block);
  LogicalResult runOp(Operation &op);
  LogicalResult runView(rank::CommandOp op);
  LogicalResult checkInFlight(rank::CommandOp op);
  Content getViewed(Value value, int64_t offset);
  LogicalResult runMicrobatches(rank::MicrobatchesOp loop);
  LogicalResult runLoop(rank::LoopOp loop);

  func::FuncOp function;
  int64_t device;
  const rank::Aliasing &aliasing;
  DenseMap<Value, rank::BufferAttr> buffers;
  DenseMap<Value, Content> contents;
  /// The contents that runs of segments have left, by result of the loop and
  /// slot (0 unless the result is a stash).
  DenseMap<std::pair<Value, int64_t>, Content> handed;
  /// Collectives in flight: started and not yet waited for, in order.
  llvm::SetVector<Operation *> inFlight;
  ArenaContents memory[2];
  int64_t microbatch = 0, writes = 0, count = 1;
  int64_t iteration = 0, iterations = 1; // of a loop
};

} // namespace

rank::BufferAttr BufferChecker::getBuffer(Value value) {
  auto [entry, isNew] = buffers.try_emplace(value);
  if (isNew)
    entry->second = rank::getBuffer(value);
  return entry->second;
}

bool BufferChecker::overlap(rank::BufferAttr left,
                            rank::BufferAttr right) const {
  return left.getRegion() == right.getRegion() &&
         start(left) < start(right) + right.getSize() &&
         start(right) < start(left) + left.getSize();
}

void BufferChecker::write(Value value) {
  rank::BufferAttr buffer = getBuffer(value);
  memory[static_cast<int>(buffer.getRegion())].write(
      start(value), start(value) + buffer.getSize(), ++writes);
  contents[value] = {writes, 0};
}

LogicalResult BufferChecker::checkBounds(Operation *op,
                                         rank::BufferAttr buffer) {
  int64_t size = rank::getArena(function).getBytes(buffer.getRegion());
  int64_t end = buffer.getEnd(count, iterations);
  if (int64_t begin = buffer.getBegin(iterations); begin < 0)
    return op->emitOpError("buffer ")
           << buffer << " begins at " << begin << ", in front of the region";
  if (end > size)
    return op->emitOpError("buffer ")
           << buffer << " ends at " << end << ", behind the region's " << size;
  return success();
}

LogicalResult BufferChecker::checkMemory() {
  rank::MachineAttr machine = rank::getMachine(function);
  int64_t arena = rank::getArena(function).getBytes(),
          channels = rank::getChannelBytes(function);
  if (machine && machine.getMemory() &&
      arena + channels > *machine.getMemory()) {
    InFlightDiagnostic error = function.emitOpError("takes an arena of ")
                               << arena << " bytes";
    if (channels)
      error << " and " << channels << " for what it sends";
    return error
           << ", and a rank of the machine has " << *machine.getMemory()
           << "; split the program over more ranks, or state more memory in '"
           << rank::machineAttrName << "' (--machine FILE)";
  }
  return success();
}

LogicalResult BufferChecker::checkBuffer(Operation *op, Value value) {
  rank::BufferAttr buffer = getBuffer(value);
  if (!buffer)
    return op->emitOpError("has a value without a buffer");
  if (buffer.getSize() != rank::getByteSize(value.getType()))
    return op->emitOpError("buffer ")
           << buffer << " is not of the size of " << value.getType();
  return checkBounds(op, buffer);
}

LogicalResult BufferChecker::read(OpOperand &operand) {
  Value value = operand.get();
  rank::BufferAttr buffer = getBuffer(value);
  if (!memory[static_cast<int>(buffer.getRegion())].holds(
          start(value), start(value) + buffer.getSize(),
          contents.lookup(value)))
    return operand.getOwner()->emitOpError("operand ")
           << operand.getOperandNumber() << " was overwritten: " << buffer
           << " does not hold it in microbatch " << microbatch;
  return success();
}

bool BufferChecker::mayOverlap(OpOperand &operand, OpResult result) {
  Operation *op = result.getOwner();
  unsigned number = operand.getOperandNumber();
  return runtime::isInPlace(aliasing.get(op, number, result.getResultNumber()),
                            start(operand.get()), start(result),
                            [&](int64_t whole) {
                              auto collective = cast<rank::CollectiveOp>(op);
                              return whole + collective.getBlockBytes(number) *
                                                 getIndex(collective.getAxes());
                            });
}

/// Checks that results are disjoint, and overlap operands only where that is
/// allowed, and exactly.
LogicalResult BufferChecker::checkResults(Operation *op) {
  for (OpResult result : op->getResults()) {
    if (failed(checkBuffer(op, result)))
      return failure();
    if (isa<rank::CollectiveOp>(op) &&
        (getBuffer(result).getRegion() != rank::Region::Shared ||
         getBuffer(op->getOperand(result.getResultNumber())).getRegion() !=
             rank::Region::Shared))
      return op->emitOpError("moves bytes that peers cannot reach");
    for (OpResult other : op->getResults().take_front(result.getResultNumber()))
      if (overlap(result, other))
        return op->emitOpError("results ")
               << other.getResultNumber() << " and " << result.getResultNumber()
               << " overlap";
    for (OpOperand &operand : op->getOpOperands()) {
      if (overlap(operand.get(), result) && !mayOverlap(operand, result))
        return op->emitOpError("result ")
               << result.getResultNumber() << " at " << getBuffer(result)
               << " overwrites operand " << operand.getOperandNumber() << " at "
               << getBuffer(operand.get()) << ", which it still reads";
    }
  }
  return success();
}

LogicalResult BufferChecker::checkScratch(rank::CommandOp op) {
  rank::BufferAttr scratch = op.getScratchAttr();
  if (!scratch)
    return success();
  if (failed(checkBounds(op, scratch)))
    return failure();
  memory[static_cast<int>(scratch.getRegion())].write(
      start(scratch), start(scratch) + scratch.getSize(), ++writes);
  // Scratch must not overwrite the operands of the product, nor its results.
  for (OpOperand &operand : op->getOpOperands())
    if (failed(read(operand)))
      return failure();
  for (OpResult result : op->getResults())
    if (overlap(scratch, getBuffer(result)))
      return op->emitOpError("result ")
             << result.getResultNumber() << " at " << getBuffer(result)
             << " overlaps the scratch at " << scratch;
  return success();
}

/// The number of slots if the value is a stash; 0 for others.
static int64_t getSlots(Value value) {
  auto loop = value.getDefiningOp<rank::MicrobatchesOp>();
  return loop ? loop.getSlots(cast<OpResult>(value).getResultNumber()) : 0;
}

LogicalResult BufferChecker::runOp(Operation &op) {
  if (auto loop = dyn_cast<rank::MicrobatchesOp>(op))
    return runMicrobatches(loop);
  if (auto loop = dyn_cast<rank::LoopOp>(op))
    return runLoop(loop);
  if (auto wait = dyn_cast<rank::WaitOp>(op)) {
    if (!inFlight.remove(wait.getCollective()))
      return wait.emitOpError("waits for what is not in flight");
    return runView(wait);
  }
  auto command = dyn_cast<rank::CommandOp>(op);
  if (command && command.isWrittenAtLoad())
    return success();
  bool isView =
      command && op.getNumResults() && command.getViewOffset(0, device);
  for (OpOperand &operand : op.getOpOperands())
    // A view is of one slot of a stash, and is checked where it is read.
    if (!(isView && getSlots(operand.get())) && failed(read(operand)))
      return failure();
  if (!command) // a terminator
    return success();
  if (isView)
    return runView(command);
  if (failed(checkResults(&op)) || failed(checkScratch(command)) ||
      failed(checkInFlight(command)))
    return failure();
  if (auto call = dyn_cast<rank::LibraryCallOp>(op))
    if (std::optional<unsigned> addend = call.getAddendNumber();
        addend &&
        getBuffer(op.getOperand(*addend)) != getBuffer(op.getResult(0)))
      return op.emitOpError("result does not lie in the addend's buffer");
  for (Value result : op.getResults())
    write(result);
  if (auto collective = dyn_cast<rank::CollectiveOp>(op);
      collective && collective.isStarted())
    inFlight.insert(collective);
  return success();
}

/// The content at byte `offset` of a value; for a stash, the content of that
/// slot.
Content BufferChecker::getViewed(Value value, int64_t offset) {
  Content content = contents.lookup(value);
  if (int64_t slots = getSlots(value)) {
    int64_t bytes = rank::getByteSize(value.getType()) / slots;
    content = handed.lookup({value, offset / bytes});
    offset %= bytes;
  }
  content.offset += offset;
  return content;
}

/// Runs results that are views of operands.
LogicalResult BufferChecker::runView(rank::CommandOp op) {
  for (OpResult result : op->getResults()) {
    unsigned number = result.getResultNumber();
    contents[result] = getViewed(op->getOperand(op.getView(number)->operand),
                                 *op.getViewOffset(number, device));
    if (failed(checkBuffer(op, result)))
      return failure();
  }
  return success();
}

/// Checks that the op writes no bytes that a collective in flight reads or
/// writes. Reads need no check: reading bytes that a collective writes does not
/// find the value.
LogicalResult BufferChecker::checkInFlight(rank::CommandOp op) {
  SmallVector<rank::BufferAttr> written;
  for (Value result : op->getResults())
    written.push_back(getBuffer(result));
  if (rank::BufferAttr scratch = op.getScratchAttr())
    written.push_back(scratch);
  for (Operation *other : inFlight)
    for (auto [values, doing] :
         {std::pair(ValueRange(other->getOperands()), "reading"),
          std::pair(ValueRange(other->getResults()), "writing")})
      for (Value value : values)
        for (rank::BufferAttr buffer : written)
          if (overlap(buffer, getBuffer(value)))
            return op->emitOpError("writes ")
                   << buffer << " while the collective with id "
                   << cast<rank::CollectiveOp>(other).getId() << " is still "
                   << doing << " " << getBuffer(value);
  return success();
}

LogicalResult BufferChecker::runBlock(Block &block) {
  for (Operation &op : block)
    if (failed(runOp(op)))
      return failure();
  for (Operation *op : inFlight)
    return op->emitOpError("is started and nobody waits for it in its block");
  return success();
}

/// Checks that each element of a stack is in its place after the last
/// iteration, and that each carried value is where the next iteration finds it.
LogicalResult BufferChecker::runLoop(rank::LoopOp loop) {
  unsigned numOf = loop.getOf().size(), numStacks = loop.getNumStacks();
  for (OpOperand &operand : loop->getOpOperands())
    if (failed(read(operand)))
      return failure();
  if (failed(checkResults(loop)) || failed(checkInFlight(loop)))
    return failure();
  // The first iteration finds the carried operands there.
  ValueRange last = loop.getResults().drop_front(numStacks);
  for (auto [carried, result] : llvm::zip_equal(loop.getCarry(), last))
    if (getBuffer(carried) != getBuffer(result))
      return loop.emitOpError("carries ")
             << getBuffer(carried) << " on at " << getBuffer(result);
  iterations = loop.getCount();
  Block &body = loop.getBody().front();
  SmallVector<Content> handed = llvm::map_to_vector(
      loop.getCarry(), [&](Value value) { return contents.lookup(value); });
  std::vector<SmallVector<Content>> given(numStacks);
  for (iteration = 0; iteration < iterations; ++iteration) {
    for (BlockArgument argument : body.getArguments()) {
      unsigned number = argument.getArgNumber();
      auto source = loop.getSource(argument);
      if (number >= numOf && number - numOf < handed.size()) {
        contents[argument] = handed[number - numOf];
        continue;
      }
      contents[argument] = contents.lookup(source.value);
      int64_t bytes = rank::getByteSize(argument.getType());
      if (source.isElement)
        contents[argument].offset +=
            loop.getFirst(bytes) + iteration * loop.getEach(bytes);
    }
    for (Operation &op : body)
      if (failed(runOp(op)))
        return failure();
    for (auto [i, value] : llvm::enumerate(loop.getYield().getOperands())) {
      rank::BufferAttr at = getBuffer(value),
                       place = getBuffer(loop.getResult(i));
      if (i < numStacks)
        place = loop.getElementBuffer(place, value);
      if (at != place)
        return loop.getYield().emitOpError("value ")
               << i << " lies at " << at
               << ", where the loop's result wants it at " << place;
      if (i < numStacks)
        given[i].push_back(contents.lookup(value));
      else
        handed[i - numStacks] = contents.lookup(value);
    }
  }
  // The elements that earlier iterations left in a stack are still there.
  for (auto [i, each] : llvm::enumerate(given)) {
    Value element = loop.getYield()->getOperand(i);
    rank::BufferAttr buffer = getBuffer(element);
    for (iteration = 0; iteration < iterations; ++iteration)
      if (!memory[static_cast<int>(buffer.getRegion())].holds(
              start(buffer), start(buffer) + buffer.getSize(), each[iteration]))
        return loop.emitOpError("result ")
               << i << " has lost the element of iteration " << iteration
               << ", which lay at " << buffer;
  }
  iteration = 0;
  iterations = 1;
  for (OpResult result : loop.getResults().take_front(numStacks))
    write(result); // the elements as one
  for (auto [result, content] : llvm::zip_equal(last, handed))
    contents[result] = content;
  return success();
}

LogicalResult BufferChecker::runMicrobatches(rank::MicrobatchesOp loop) {
  for (OpOperand &operand : loop->getOpOperands())
    if (failed(read(operand)))
      return failure();
  count = loop.getCount();
  handed.clear(); // left by the previous step
  SmallVector<rank::SegmentOp, 4> segments = loop.getSegments();
  for (OpResult result : loop.getResults())
    if (failed(checkBuffer(loop, result)))
      return failure();
  for (auto run : loop.getRunsToCheck()) {
    microbatch = run.microbatch;
    rank::SegmentOp segment = segments[run.segment];
    Block &block = segment.getBody().front();
    auto slotOf = [&](int64_t result) {
      int64_t slots = loop.getSlots(result);
      return std::pair(loop.getResult(result), slots ? microbatch % slots : 0);
    };
    for (auto [argument, source] :
         llvm::zip(block.getArguments(), loop.getOf())) {
      contents[argument] = contents.lookup(source);
      contents[argument].offset +=
          microbatch * rank::getByteSize(argument.getType());
    }
    for (auto [argument, result] :
         llvm::zip_equal(block.getArguments().drop_front(loop.getOf().size()),
                         segment.getTakes())) {
      auto given = handed.find(slotOf(result));
      contents[argument] = given == handed.end()
                               ? contents.lookup(loop.getInitial(result))
                               : given->second;
    }
    if (failed(runBlock(block)))
      return failure();
    for (auto [result, value] :
         llvm::zip_equal(segment.getGives(), segment.getYield().getOperands()))
      handed[slotOf(result)] = contents.lookup(value);
  }
  microbatch = 0;
  count = 1;
  for (OpResult result : loop.getResults())
    if (!loop.getSlots(result.getResultNumber()))
      contents[result] = handed.lookup({result, 0});
  return success();
}

LogicalResult BufferChecker::run() {
  Block &block = function.getBody().front();
  if (!rank::getArena(function))
    return function.emitOpError("has no buffers: assign-buffers comes first");
  if (failed(checkMemory()))
    return failure();
  auto writeChecked = [&](Operation *op, Value value) {
    if (failed(checkBuffer(op, value)))
      return failure();
    write(value);
    return success();
  };
  for (Value argument : function.getArguments())
    if (failed(writeChecked(function, argument)))
      return failure();
  WalkResult written = function.walk([&](Operation *op) {
    if (auto command = dyn_cast<rank::CommandOp>(op);
        command && command.isWrittenAtLoad() &&
        failed(writeChecked(op, op->getResult(0))))
      return WalkResult::interrupt();
    return WalkResult::advance();
  });
  if (written.wasInterrupted())
    return failure();
  if (failed(runBlock(block)))
    return failure();
  // The next step finds the results where it expects its arguments.
  Operation *terminator = block.getTerminator();
  graph::Boundary boundary(function);
  for (BlockArgument argument : function.getArguments())
    if (!boundary.isKept(argument.getArgNumber()))
      write(argument);
  for (auto [i, result] : llvm::enumerate(terminator->getOperands())) {
    std::optional<unsigned> replaced = boundary.getReplaced(i);
    if (!replaced)
      continue;
    BlockArgument argument = function.getArgument(*replaced);
    if (getBuffer(result) != getBuffer(argument))
      return terminator->emitOpError("result ")
             << i << " lies at " << getBuffer(result)
             << ", the argument that it replaces at " << getBuffer(argument);
    contents[argument] = contents.lookup(result);
  }
  return runBlock(block);
}

/// The devices that are first, in the middle or last along each axis of the
/// function's mesh, or at the function's own coordinate: all combinations along
/// the first axes, and beyond a limit no more devices for further axes.
static SmallVector<int64_t> getDevices(func::FuncOp function) {
  sharding::MeshAttr mesh;
  AttrTypeWalker walker;
  walker.addWalk([&](rank::AxesAttr axes) { mesh = axes.getMesh(); });
  function.walk([&](Operation *op) { walker.walk(op->getAttrDictionary()); });
  SmallVector<int64_t> devices = {0};
  if (!mesh)
    return devices;
  for (auto [axis, size] : llvm::enumerate(mesh.getAxisSizes())) {
    SmallVector<int64_t> positions = {0, size / 2, size - 1}, next;
    positions.erase(llvm::unique(positions), positions.end());
    if (auto own = rank::getCoordinate(function, mesh, axis))
      positions = {*own};
    constexpr size_t most = 243; // five axes
    bool isCombined = devices.size() * positions.size() <= most;
    for (auto [i, device] : llvm::enumerate(devices)) {
      ArrayRef<int64_t> chosen = positions;
      for (int64_t position :
           isCombined ? chosen : chosen.slice(i % positions.size(), 1))
        next.push_back(device * size + position);
    }
    devices = next;
  }
  return devices;
}

/// The axes over which a device's coordinate matters for places: those of
/// blocks.
static llvm::SetVector<rank::AxesAttr>
getBlockAxes(func::FuncOp function, const rank::Aliasing &aliasing) {
  llvm::SetVector<rank::AxesAttr> found;
  AttrTypeWalker buffers; // looks at equal attributes once
  buffers.addWalk([&](rank::BufferAttr buffer) {
    if (buffer.getAxes())
      found.insert(buffer.getAxes());
  });
  function.walk([&](Operation *op) {
    buffers.walk(op->getAttrDictionary()); // where values and scratch lie
    if (auto command = dyn_cast<rank::CommandOp>(op))
      for (unsigned i = 0; i < op->getNumResults(); ++i)
        if (auto view = command.getView(i); view && view->axes)
          found.insert(view->axes);
    // The blocks over which a collective may write.
    if (auto collective = dyn_cast<rank::CollectiveOp>(op))
      for (unsigned i = 0; i < op->getNumOperands(); ++i) {
        InPlace way = aliasing.get(op, i, i);
        if (way == InPlace::Block || way == InPlace::Whole)
          found.insert(collective.getAxes());
      }
  });
  return found;
}

/// One device of `getDevices` for each different set of places of blocks.
static SmallVector<int64_t>
getDifferentDevices(func::FuncOp function, const rank::Aliasing &aliasing) {
  llvm::SetVector<rank::AxesAttr> axes = getBlockAxes(function, aliasing);
  std::set<std::vector<int64_t>> seen;
  SmallVector<int64_t> devices = getDevices(function);
  llvm::erase_if(devices, [&](int64_t device) {
    std::vector<int64_t> indices;
    for (rank::AxesAttr each : axes)
      indices.push_back(each.getMesh().getLinearIndex(device, each.getAxes()));
    return !seen.insert(indices).second;
  });
  return devices;
}

/// Checks that one function sends each value that is received, and that both
/// ends mean the same channel.
static LogicalResult checkReceives(ModuleOp module) {
  DenseMap<int64_t, rank::SendOp> sends;
  WalkResult result = module.walk([&](rank::SendOp send) -> WalkResult {
    rank::SendOp first = sends.try_emplace(send.getId(), send).first->second;
    if (first->getParentOfType<func::FuncOp>() ==
        send->getParentOfType<func::FuncOp>())
      return WalkResult::advance();
    InFlightDiagnostic error = send.emitOpError("sends the value with id ")
                               << send.getId()
                               << ", and so does another function";
    error.attachNote(first->getLoc()) << "it is sent here too";
    return error;
  });
  if (result.wasInterrupted())
    return failure();
  result = module.walk([&](rank::RecvOp receive) -> WalkResult {
    rank::SendOp send = sends.lookup(receive.getId());
    if (!send)
      return receive.emitOpError("receives the value with id ")
             << receive.getId() << ", which no function sends";
    if (send.getInput().getType() == receive.getOutput().getType() &&
        send.getSlots() == receive.getSlots())
      return WalkResult::advance();
    InFlightDiagnostic error = receive.emitOpError("receives ")
                               << receive.getOutput().getType() << " from "
                               << receive.getSlots() << " slots under id "
                               << receive.getId();
    error.attachNote(send->getLoc())
        << "what is sent is " << send.getInput().getType() << " in "
        << send.getSlots() << " slots";
    return error;
  });
  return failure(result.wasInterrupted());
}

namespace {
struct CheckBuffersPass : lowering::impl::CheckBuffersBase<CheckBuffersPass> {
  void runOnOperation() override {
    rank::Aliasing aliasing(getOperation());
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal())
        continue;
      for (int64_t device : getDifferentDevices(function, aliasing))
        if (failed(BufferChecker(function, device, aliasing).run()))
          return signalPassFailure();
    }
    if (failed(checkReceives(getOperation())))
      signalPassFailure();
  }
};
} // namespace
