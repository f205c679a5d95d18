// Simulates the time of a step for one rank.

#include "compiler/overlap/Timeline.h"

#include "compiler/overlap/Queues.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::overlap;

static double getBytes(ValueRange values) {
  double bytes = 0;
  for (Value value : values)
    bytes += rank::getByteSize(value.getType());
  return bytes;
}

FailureOr<Durations> Durations::of(func::FuncOp function) {
  auto machine = cost::Machine::of(function);
  if (failed(machine))
    return failure();
  Durations durations(*machine);
  sharding::MeshAttr mesh;
  function.walk([&](Operation *op) {
    if (auto collective = dyn_cast<rank::CollectiveOp>(op))
      mesh = collective.getAxes().getMesh();
    else if (auto send = dyn_cast<rank::SendOp>(op))
      mesh = send.getAxes().getMesh();
  });
  if (mesh)
    durations.model = machine->getModel(mesh);
  if (machine->getHostTime() > 0)
    function.walk([&](Block *block) {
      // The iterations of a loop are one command.
      if (!isa<rank::LoopOp>(block->getParentOp()))
        durations.issue(*block);
    });
  return durations;
}

void Durations::issue(Block &block) {
  cost::IssueClock clock(machine.getHostTime());
  for (Operation &op : block) {
    int64_t onDevice = getOnDevice(&op);
    if (onDevice == 0)
      continue;
    auto collective = dyn_cast<rank::CollectiveOp>(&op);
    double time = collective && collective.isStarted()
                      ? 0
                      : static_cast<double>(onDevice);
    int64_t wait = wholePicoseconds(std::max(0.0, clock.run(time) - time));
    if (wait > 0 && !collective)
      waits[&op] = wait;
  }
}

int64_t Durations::get(Operation *op) const {
  return getOnDevice(op) + waits.lookup(op);
}

int64_t Durations::getOnDevice(Operation *op) const {
  auto command = dyn_cast<rank::CommandOp>(op);
  if (!command || command.isWrittenAtLoad() || isa<rank::WaitOp>(op) ||
      (op->getNumResults() && command.getView(0)))
    return 0;
  if (auto loop = dyn_cast<rank::LoopOp>(op)) {
    int64_t sum = 0;
    for (Operation &inner : loop.getBody().front())
      sum += getOnDevice(&inner);
    return sum * loop.getCount();
  }
  if (auto collective = dyn_cast<rank::CollectiveOp>(op))
    return model->getPicoseconds(collective.getCollectiveKind(),
                                 collective.getAxes().getAxes(),
                                 collective.getSentBytes());
  double bytes = getBytes(op->getOperands()) + getBytes(op->getResults());
  // The value is read and written once more, to a slot or from one.
  if (isa<rank::SendOp, rank::RecvOp>(op))
    bytes *= 2;
  cost::CommandWork work{0, bytes};
  Type type; // of the FLOPs
  if (auto call = dyn_cast<rank::LibraryCallOp>(op)) {
    type = rank::getTensorType(op->getOperand(0).getType()).getElementType();
    work.flops = static_cast<double>(call.getFlops());
  }
  if (auto gemm = dyn_cast<rank::GemmOp>(op))
    work.product = {gemm.getFlops() /
                        (2 * gemm.getM() * gemm.getN() * gemm.getK()),
                    gemm.getM(), gemm.getN(), gemm.getK()};
  return static_cast<int64_t>(machine.getCommandTime(work, type));
}

int64_t Durations::getArrival(rank::SendOp op) const {
  return model->getLink(op.getAxes().getAxes())
      .messageTime(rank::getByteSize(op.getInput().getType()));
}

int64_t StepTime::getCommunication() const {
  int64_t sum = 0;
  for (const auto &[queue, time] : communication)
    sum += time;
  return sum;
}

int64_t StepTime::getLowerBound() const {
  int64_t bound = computation;
  for (const auto &[queue, time] : communication)
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
    step.makespan = clock.now();
    return std::move(step);
  }

private:
  void run(Operation &op, int64_t executions);

  const Durations &durations;
  Queues queues;
  StepTime step;
  runtime::QueueClock clock;
  llvm::DenseMap<Operation *, runtime::QueueClock::Interval> inFlight;
};
} // namespace

void Simulator::run(Operation &op, int64_t executions) {
  if (auto wait = dyn_cast<rank::WaitOp>(op)) {
    clock.wait(inFlight.at(wait.getCollective()));
    return;
  }
  int64_t time = durations.get(&op);
  auto collective = dyn_cast<rank::CollectiveOp>(op);
  if (!collective) {
    clock.compute(time);
    step.computation += executions * time;
    return;
  }
  uint32_t queue = queues.get(collective);
  runtime::QueueClock::Interval interval = clock.start(queue, time);
  step.communication[queue] += executions * time;
  step.collectives += executions;
  if (collective.isStarted()) {
    step.started += executions;
    inFlight[collective] = interval;
  } else {
    clock.wait(interval);
  }
}

/// Nothing is in flight at the end of a block, so all executions of a block
/// take equally long.
void Simulator::run(Block &block, int64_t executions) {
  for (Operation &op : block) {
    auto loop = dyn_cast<rank::MicrobatchesOp>(op);
    if (!loop) {
      run(op, executions);
      continue;
    }
    for (auto [part, count] :
         llvm::zip_equal(loop.getBlocks(), loop.countRuns())) {
      int64_t begin = clock.now();
      run(*part, executions * count);
      clock.repeat(begin, count);
    }
  }
}

StepTime polyrank::overlap::simulate(func::FuncOp function,
                                     const Durations &durations) {
  return simulate(function.getBody().front(), durations);
}

StepTime polyrank::overlap::simulate(Block &block, const Durations &durations) {
  Simulator simulator(durations);
  simulator.run(block, 1);
  return simulator.finish();
}
