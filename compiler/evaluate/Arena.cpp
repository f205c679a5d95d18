// Evaluation of programs with buffers: commands read and write arenas.

#include "compiler/evaluate/RankEvaluator.h"

#include <random>

using namespace mlir;
using namespace polyrank;
using namespace polyrank::evaluate;

namespace {

/// One region of a device's arena. It records at each byte at which an element
/// was written the element's value and size in bytes.
class Memory {
public:
  explicit Memory(int64_t bytes = 0) : cells(bytes) {}

  void write(int64_t begin, const Tensor &value, int64_t size) {
    for (int64_t i = 0, n = value.size(); i < n; ++i) {
      Cell *cell = &cells[begin + i * size];
      std::fill(cell, cell + size, Cell());
      cell->size = size;
      if (value.isFloat())
        cell->number = value.floats[i];
      else
        cell->integer = value.integers[i];
    }
  }
  /// Reads NaN (integers: 1) where no element of this size was written.
  Tensor read(int64_t begin, RankedTensorType type, int64_t size) const {
    Tensor value(type);
    for (int64_t i = 0, n = value.size(); i < n; ++i) {
      const Cell &cell = cells[begin + i * size];
      bool isThere = cell.size == size;
      if (value.isFloat())
        value.floats[i] = isThere ? cell.number : NAN;
      else
        value.integers[i] = isThere ? cell.integer : 1;
    }
    return value;
  }
  void spoil(int64_t begin, int64_t bytes) {
    std::fill_n(cells.begin() + begin, bytes, Cell());
  }
  int64_t size() const { return cells.size(); }

private:
  struct Cell {
    double number = 0;
    int64_t integer = 0;
    int64_t size = 0;
  };
  std::vector<Cell> cells;
};

/// The arenas of all devices, by region and device.
using Arenas = std::vector<Memory>[2];

/// Each command reads its operands from the devices' arenas and writes its
/// results there. A started collective is executed at a random time before its
/// wait.
class ArenaEvaluator : public RankEvaluator {
public:
  /// Runs a program that all devices share, or one of several programs.
  ArenaEvaluator(func::FuncOp function, Arenas &memory, Exchange *exchange,
                 size_t number, uint64_t seed, Rounding rounding)
      : RankEvaluator(
            exchange ? RankEvaluator(*exchange, number, rounding)
                     : RankEvaluator(evaluate::getMesh(function), rounding)),
        memory(memory), random(seed) {
    rank::ArenaAttr arena = rank::getArena(function);
    for (rank::Region region : {rank::Region::Shared, rank::Region::Private}) {
      std::vector<Memory> &regions = memory[static_cast<int>(region)];
      regions.resize(numDevices);
      for (int64_t device : devices)
        regions[device] = Memory(arena.getBytes(region));
    }
  }

  void write(Value value, const Devices &parts);
  Devices read(Value value);
  /// Writes the constants that the plan stores.
  LogicalResult load(func::FuncOp function);

protected:
  LogicalResult runOp(Operation &op) override;
  LogicalResult runLoop(rank::LoopOp loop) override;

private:
  struct Flight {
    rank::CollectiveOp op;
    int64_t delay = 0; // commands until it runs
  };
  int64_t getStart(rank::BufferAttr buffer, int64_t device) const;
  LogicalResult execute(Operation &op);
  LogicalResult executeStarted(Operation *awaited);
  LogicalResult runSegments(rank::MicrobatchesOp loop);

  Arenas &memory;
  int64_t microbatch = 0, iteration = 0;
  std::vector<Flight> flights;
  std::mt19937_64 random;
};

} // namespace

int64_t ArenaEvaluator::getStart(rank::BufferAttr buffer,
                                 int64_t device) const {
  int64_t start = buffer.getOffset() + buffer.getShift(microbatch) +
                  iteration * buffer.getEach();
  if (rank::AxesAttr axes = buffer.getAxes())
    start += axes.getMesh().getLinearIndex(device, axes.getAxes()) *
             buffer.getStep();
  return start;
}

static int64_t getElementBytes(Value value) {
  return rank::getElementByteSize(
      rank::getTensorType(value.getType()).getElementType());
}

void ArenaEvaluator::write(Value value, const Devices &parts) {
  rank::BufferAttr buffer = rank::getBuffer(value);
  for (int64_t device : devices)
    memory[static_cast<int>(buffer.getRegion())][device].write(
        getStart(buffer, device), parts[device], getElementBytes(value));
}

Devices ArenaEvaluator::read(Value value) {
  rank::BufferAttr buffer = rank::getBuffer(value);
  return each([&](int64_t device) {
    return memory[static_cast<int>(buffer.getRegion())][device].read(
        getStart(buffer, device), rank::getTensorType(value.getType()),
        getElementBytes(value));
  });
}

/// Executes a command immediately.
LogicalResult ArenaEvaluator::execute(Operation &op) {
  for (Value operand : op.getOperands())
    values[operand] = read(operand);
  if (failed(RankEvaluator::runOp(op)))
    return failure();
  if (rank::BufferAttr scratch = cast<rank::CommandOp>(op).getScratchAttr())
    for (int64_t device : devices)
      memory[static_cast<int>(scratch.getRegion())][device].spoil(
          getStart(scratch, device), scratch.getSize());
  if (meetings.contains(&op)) // its wait completes it
    return success();
  for (Value result : op.getResults())
    write(result, values[result]);
  return success();
}

LogicalResult ArenaEvaluator::load(func::FuncOp function) {
  WalkResult loaded = function.walk([&](Operation *op) -> WalkResult {
    auto command = dyn_cast<rank::CommandOp>(op);
    if (command && command.isWrittenAtLoad())
      return execute(*op);
    return WalkResult::advance();
  });
  return failure(loaded.wasInterrupted());
}

/// Executes the started collectives whose delay is over, and the awaited one.
LogicalResult ArenaEvaluator::executeStarted(Operation *awaited) {
  LogicalResult result = success();
  llvm::erase_if(flights, [&](Flight &flight) {
    if (flight.op != awaited && flight.delay-- > 0)
      return false;
    if (failed(execute(*flight.op)))
      result = failure();
    return true;
  });
  return result;
}

LogicalResult ArenaEvaluator::runOp(Operation &op) {
  if (auto loop = dyn_cast<rank::MicrobatchesOp>(op))
    return runSegments(loop);
  if (auto loop = dyn_cast<rank::LoopOp>(op))
    return runLoop(loop);
  auto command = cast<rank::CommandOp>(op);
  Operation *awaited = nullptr;
  if (auto wait = dyn_cast<rank::WaitOp>(op))
    awaited = wait.getCollective();
  if (failed(executeStarted(awaited)) ||
      (exchange && failed(exchange->interleaving.pause(number))))
    return failure();
  if (Exchange::Meeting *meeting = meetings.lookup(awaited)) {
    meetings.erase(awaited);
    if (failed(endCollective(cast<rank::CollectiveOp>(awaited), *meeting)))
      return failure();
    for (Value result : awaited->getResults())
      write(result, values[result]);
  }
  if (awaited || command.isWrittenAtLoad() ||
      (op.getNumResults() && command.getViewOffset(0, 0)))
    return success();
  // Members in other programs must not wait for a random time.
  if (auto collective = dyn_cast<rank::CollectiveOp>(op);
      collective && collective.isStarted() &&
      !(exchange && rank::spansPrograms(collective))) {
    constexpr int64_t longest = 8;
    flights.push_back({collective, static_cast<int64_t>(random() % longest)});
    return success();
  }
  return execute(op);
}

/// Arguments, stacks and carried values are already in their buffers.
LogicalResult ArenaEvaluator::runLoop(rank::LoopOp loop) {
  for (iteration = 0; iteration < static_cast<int64_t>(loop.getCount());
       ++iteration)
    if (failed(runBlock(loop.getBody().front())))
      return failure();
  iteration = 0;
  return success();
}

LogicalResult ArenaEvaluator::runSegments(rank::MicrobatchesOp loop) {
  SmallVector<Block *> blocks = loop.getBlocks();
  for (auto run : loop.getRuns()) {
    microbatch = run.microbatch;
    if (failed(runBlock(*blocks[run.segment])))
      return failure();
  }
  microbatch = 0;
  return success();
}

namespace {
struct RunningArena : RunningProgram {
  RunningArena(func::FuncOp function, Arenas &memory, Exchange *exchange,
               size_t number, uint64_t seed, Rounding rounding)
      : function(function),
        evaluator(function, memory, exchange, number, seed, rounding) {}
  void setArgument(Value argument, const Devices &parts) override {
    evaluator.write(argument, parts);
  }
  LogicalResult load() override { return evaluator.load(function); }
  LogicalResult run() override {
    return evaluator.runBlock(function.getBody().front());
  }
  Devices getResult(Value value) override { return evaluator.read(value); }

  func::FuncOp function;
  ArenaEvaluator evaluator;
};
} // namespace

FailureOr<SmallVector<Tensor>>
polyrank::evaluate::evaluateArena(const JointFunction &joint,
                                  ArrayRef<Tensor> arguments, uint64_t seed,
                                  Rounding rounding) {
  for (func::FuncOp function : joint.getFunctions())
    if (!rank::getArena(function))
      return function.emitOpError("has no buffers: assign-buffers comes first");
  Arenas memory;
  return evaluateTogether(
      joint, arguments, seed, /*interleaving=*/seed,
      [&](func::FuncOp function, Exchange *exchange,
          size_t number) -> std::unique_ptr<RunningProgram> {
        return std::make_unique<RunningArena>(function, memory, exchange,
                                              number, seed + number, rounding);
      });
}
