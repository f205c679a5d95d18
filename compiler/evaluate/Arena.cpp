// Evaluation of programs with buffers: what commands find where they read.

#include "compiler/evaluate/RankEvaluator.h"

#include <random>

using namespace mlir;
using namespace polyrank;
using namespace polyrank::evaluate;

namespace {

/// One region of a device's arena, element by element: what was written from a
/// byte on, and how many bytes that took.
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
  /// NaN, or 1 of integers, where no such element was written.
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

private:
  struct Cell {
    double number = 0;
    int64_t integer = 0;
    int64_t size = 0;
  };
  std::vector<Cell> cells;
};

/// Each command reads its operands from the devices' arenas and writes its
/// results there. A collective that is started happens at a random time until
/// its wait.
class ArenaEvaluator : public RankEvaluator {
public:
  ArenaEvaluator(func::FuncOp function, uint64_t seed)
      : RankEvaluator(evaluate::getMesh(function)), random(seed) {
    rank::ArenaAttr arena = rank::getArena(function);
    for (rank::Region region : {rank::Region::Shared, rank::Region::Private})
      memory[static_cast<int>(region)].assign(numDevices,
                                              Memory(arena.getBytes(region)));
  }

  void write(Value value, const Devices &devices);
  Devices read(Value value);
  /// What the plan holds is there from the beginning.
  LogicalResult load(Operation &op) { return execute(op); }

protected:
  LogicalResult runOp(Operation &op) override;

private:
  struct Flight {
    rank::CollectiveOp op;
    int64_t delay = 0; // commands
  };
  int64_t getStart(rank::BufferAttr buffer, int64_t device) const;
  LogicalResult execute(Operation &op);
  LogicalResult runLoop(rank::MicrobatchesOp loop);

  std::vector<Memory> memory[2]; // by region and device
  int64_t microbatch = 0;
  std::vector<Flight> flights;
  std::mt19937_64 random;
};

} // namespace

int64_t ArenaEvaluator::getStart(rank::BufferAttr buffer,
                                 int64_t device) const {
  int64_t start = buffer.getOffset() + buffer.getShift(microbatch);
  if (rank::AxesAttr axes = buffer.getAxes())
    start += axes.getMesh().getLinearIndex(device, axes.getAxes()) *
             buffer.getStep();
  return start;
}

static int64_t getElementBytes(Value value) {
  return rank::getElementByteSize(
      rank::getTensorType(value.getType()).getElementType());
}

void ArenaEvaluator::write(Value value, const Devices &devices) {
  rank::BufferAttr buffer = rank::getBuffer(value);
  for (auto [device, tensor] : llvm::enumerate(devices))
    memory[static_cast<int>(buffer.getRegion())][device].write(
        getStart(buffer, device), tensor, getElementBytes(value));
}

Devices ArenaEvaluator::read(Value value) {
  rank::BufferAttr buffer = rank::getBuffer(value);
  return each([&](int64_t device) {
    return memory[static_cast<int>(buffer.getRegion())][device].read(
        getStart(buffer, device), rank::getTensorType(value.getType()),
        getElementBytes(value));
  });
}

/// A command, now.
LogicalResult ArenaEvaluator::execute(Operation &op) {
  for (Value operand : op.getOperands())
    values[operand] = read(operand);
  if (failed(RankEvaluator::runOp(op)))
    return failure();
  if (rank::BufferAttr scratch = cast<rank::CommandOp>(op).getScratchAttr())
    for (int64_t device = 0; device < numDevices; ++device)
      memory[static_cast<int>(scratch.getRegion())][device].spoil(
          getStart(scratch, device), scratch.getSize());
  for (Value result : op.getResults())
    write(result, values[result]);
  return success();
}

LogicalResult ArenaEvaluator::runOp(Operation &op) {
  if (auto loop = dyn_cast<rank::MicrobatchesOp>(op))
    return runLoop(loop);
  auto command = cast<rank::CommandOp>(op);
  Operation *awaited = nullptr;
  if (auto wait = dyn_cast<rank::WaitOp>(op))
    awaited = wait.getCollective();
  LogicalResult result = success();
  llvm::erase_if(flights, [&](Flight &flight) {
    if (flight.op != awaited && flight.delay-- > 0)
      return false;
    if (failed(execute(*flight.op)))
      result = failure();
    return true;
  });
  if (failed(result) || awaited || command.isWrittenAtLoad() ||
      (op.getNumResults() && command.getViewOffset(0, 0)))
    return result;
  if (auto collective = dyn_cast<rank::CollectiveOp>(op);
      collective && collective.isStarted()) {
    constexpr int64_t longest = 8;
    flights.push_back({collective, static_cast<int64_t>(random() % longest)});
    return success();
  }
  return execute(op);
}

LogicalResult ArenaEvaluator::runLoop(rank::MicrobatchesOp loop) {
  SmallVector<Block *> blocks = loop.getBlocks();
  for (auto run : loop.getRuns()) {
    microbatch = run.microbatch;
    if (failed(runBlock(*blocks[run.segment])))
      return failure();
  }
  microbatch = 0;
  return success();
}

FailureOr<SmallVector<Tensor>>
polyrank::evaluate::evaluateArena(func::FuncOp function,
                                  ArrayRef<Tensor> arguments, uint64_t seed) {
  if (!rank::getArena(function))
    return function.emitOpError("has no buffers: assign-buffers comes first");
  ArenaEvaluator evaluator(function, seed);
  for (auto [argument, devices] :
       llvm::zip_equal(function.getArguments(),
                       scatterArguments(function, arguments, seed)))
    evaluator.write(argument, devices);
  WalkResult loaded = function.walk([&](rank::CommandOp op) {
    return WalkResult(op.isWrittenAtLoad() ? evaluator.load(*op) : success());
  });
  Block &body = function.getBody().front();
  if (loaded.wasInterrupted() || failed(evaluator.runBlock(body)))
    return failure();
  return assembleResults(
      function,
      llvm::map_to_vector(body.getTerminator()->getOperands(),
                          [&](Value value) { return evaluator.read(value); }));
}
