// Follows the ops in program order.

#include "compiler/sharding/BucketClock.h"

#include "compiler/cost/KernelTimes.h"
#include "dialects/graph/Provenance.h"

#include <set>

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;

BucketClock::BucketClock(func::FuncOp function, const cost::Machine &machine,
                         const cost::CostModel &model,
                         llvm::function_ref<bool(Operation &)> isBucketed) {
  llvm::DenseMap<Operation *, double> computed, collectives;
  auto addBlock = [&](Block &block) {
    for (auto [op, length] : cost::getKernelTimes(block, machine, &model))
      if (!isa<MovementOp>(op))
        computed[op] = length;
      else if (!isBucketed(*op))
        collectives[op] = length;
  };
  addBlock(function.getBody().front());
  function.walk([&](graph::MicrobatchesOp region) {
    addBlock(region.getBody().front());
  });
  SmallVector<Operation *> walked;
  std::set<Stage> stages{std::nullopt};
  function.walk<WalkOrder::PostOrder>([&](Operation *op) {
    walked.push_back(op);
    ops.push_back({computed.lookup(op), graph::getStage(op)});
    stages.insert(ops.back().stage);
  });
  for (Stage stage : stages)
    courses[stage] = follow(walked, collectives, stage);
}

BucketClock::Course
BucketClock::follow(ArrayRef<Operation *> walked,
                    const llvm::DenseMap<Operation *, double> &collectives,
                    Stage stage) const {
  Course course;
  auto findQueue = [&](ArrayRef<AxisRef> axes) -> Queue & {
    for (Queue &queue : course.queues)
      if (ArrayRef(queue.axes) == axes)
        return queue;
    course.queues.push_back({SmallVector<AxisRef>(axes), {}, 0});
    return course.queues.back();
  };
  llvm::DenseMap<Value, double> arrivals; // of what collectives give
  double now = 0;
  for (auto [place, op] : llvm::enumerate(walked)) {
    if (computes(static_cast<int64_t>(place), stage)) {
      double arrival = 0;
      for (Value operand : op->getOperands())
        arrival = std::max(arrival, arrivals.lookup(operand));
      double length = ops[place].length;
      if (auto collective = collectives.find(op);
          collective != collectives.end() && collective->second > 0) {
        now = std::max(now, arrival);
        Queue &queue = findQueue(cast<MovementOp>(op).getMovement().axes);
        queue.uses.push_back({now, collective->second});
        queue.free = std::max(queue.free, now) + collective->second;
        arrival = queue.free;
      } else if (length > 0) {
        now = std::max(now, arrival) + length;
        arrival = 0;
      }
      // An op that takes no time is computed with its readers.
      if (arrival > 0)
        for (Value result : op->getResults())
          arrivals[result] = arrival;
    }
    course.ends.push_back(now);
  }
  return course;
}

bool BucketClock::computes(int64_t place, Stage stage) const {
  const Stage &own = ops[place].stage;
  return !own || !stage || own == stage;
}

double BucketClock::getLength(int64_t place, Stage stage) const {
  return computes(place, stage) ? ops[place].length : 0;
}

double BucketClock::getEnd(int64_t place, Stage stage) const {
  return place < 0 ? 0 : courses.at(stage).ends[place];
}

ArrayRef<LinkUse> BucketClock::getUses(ArrayRef<AxisRef> axes,
                                       Stage stage) const {
  for (const Queue &queue : courses.at(stage).queues)
    if (ArrayRef(queue.axes) == axes)
      return queue.uses;
  return {};
}
