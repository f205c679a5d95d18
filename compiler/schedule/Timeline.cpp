// How long a step takes: a simulation of one rank.

#include "compiler/schedule/Timeline.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::schedule;

static double getBytes(ValueRange values) {
  double bytes = 0;
  for (Value value : values)
    bytes += rank::getByteSize(value.getType());
  return bytes;
}

int64_t Durations::get(Operation *op) const {
  auto command = dyn_cast<rank::CommandOp>(op);
  if (!command || command.isWrittenAtLoad() || isa<rank::WaitOp>(op) ||
      (op->getNumResults() && command.getView(0)))
    return 0;
  if (auto collective = dyn_cast<rank::CollectiveOp>(op))
    return model.getPicoseconds(collective.getCollectiveKind(),
                                collective.getAxes().getAxes(),
                                collective.getSentBytes());
  double picoseconds = 1e12 *
                       (getBytes(op->getOperands()) + getBytes(op->getResults())) /
                       rates.bytesPerSecond;
  if (auto gemm = dyn_cast<rank::GemmOp>(op))
    picoseconds = std::max(picoseconds,
                           1e12 * gemm.getFlops() / rates.flopsPerSecond);
  return static_cast<int64_t>(picoseconds);
}

int64_t StepTime::getCommunication() const {
  int64_t sum = 0;
  for (const auto &[axes, time] : communication)
    sum += time;
  return sum;
}

int64_t StepTime::getLowerBound() const {
  int64_t bound = computation;
  for (const auto &[axes, time] : communication)
    bound = std::max(bound, time);
  return bound;
}

namespace {
/// Follows the commands in order.
class Simulator {
public:
  explicit Simulator(const Durations &durations) : durations(durations) {}

  void run(Block &block, int64_t executions);

  StepTime finish() {
    step.makespan = now;
    return std::move(step);
  }

private:
  void run(Operation &op, int64_t executions);

  const Durations &durations;
  StepTime step;
  int64_t now = 0;
  llvm::DenseMap<rank::AxesAttr, int64_t> freeFrom;
  llvm::DenseMap<Operation *, int64_t> ends; // of what is in flight
};
} // namespace

void Simulator::run(Operation &op, int64_t executions) {
  if (auto wait = dyn_cast<rank::WaitOp>(op)) {
    now = std::max(now, ends.lookup(wait.getCollective()));
    return;
  }
  int64_t time = durations.get(&op);
  auto collective = dyn_cast<rank::CollectiveOp>(op);
  if (!collective) {
    now += time;
    step.computation += executions * time;
    return;
  }
  int64_t &queue = freeFrom[collective.getAxes()];
  queue = std::max(queue, now) + time;
  step.communication[collective.getAxes()] += executions * time;
  step.collectives += executions;
  if (collective.isStarted()) {
    step.started += executions;
    ends[collective] = queue;
  } else {
    now = queue;
  }
}

/// Nothing is in flight at a block's end, so all executions of one take as long.
void Simulator::run(Block &block, int64_t executions) {
  for (Operation &op : block) {
    auto loop = dyn_cast<rank::MicrobatchesOp>(op);
    if (!loop) {
      run(op, executions);
      continue;
    }
    for (Block *part : loop.getBlocks()) {
      bool isFirst = part == loop.getBlocks().front();
      int64_t count = isFirst ? 1 : static_cast<int64_t>(loop.getCount()) - 1;
      int64_t start = now;
      run(*part, executions * count);
      now = start + count * (now - start);
      freeFrom.clear();
    }
  }
}

StepTime polyrank::schedule::simulate(func::FuncOp function,
                                      const Durations &durations) {
  Simulator simulator(durations);
  simulator.run(function.getBody().front(), 1);
  return simulator.finish();
}
