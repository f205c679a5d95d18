// Counts what crosses the border of the kernels that a block will become.

#include "compiler/cost/KernelTimes.h"

#include "compiler/cost/OpTime.h"
#include "dialects/graph/Provenance.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::cost;

namespace {

/// Where an op is computed. Two ops of equal places are in one kernel.
struct KernelPlace {
  bool isCall = false;
  /// The calls and movements on the longest path to the op.
  int depth = 0;
  graph::Phase phase = graph::Phase::Forward;

  bool sharesKernel(const KernelPlace &other) const {
    return !isCall && !other.isCall && depth == other.depth &&
           phase == other.phase;
  }
};

class KernelTimes {
public:
  KernelTimes(const Machine &machine, const CostModel *model)
      : machine(machine), model(model) {}

  void add(Operation &op);
  void finish();
  llvm::DenseMap<Operation *, double> times;

private:
  void read(Operation &op, Value source, const KernelPlace &place);

  const Machine &machine;
  const CostModel *model;
  llvm::MapVector<Operation *, KernelPlace> places;
  /// The kernels that have read a value.
  llvm::DenseMap<Value, SmallVector<KernelPlace, 2>> readers;
  llvm::DenseMap<Operation *, double> bytes;
};

} // namespace

/// The value whose elements `value` has in another shape.
static Value getSource(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<graph::ReshapeOp, graph::DetachOp, graph::BroadcastOp,
             graph::AfterOp>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

static double getBytes(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type ? static_cast<double>(getLocalBytes(type)) : 0;
}

void KernelTimes::read(Operation &op, Value source, const KernelPlace &place) {
  auto producer = places.find(source.getDefiningOp());
  if (producer != places.end() && producer->second.sharesKernel(place))
    return;
  SmallVector<KernelPlace, 2> &kernels = readers[source];
  if (llvm::any_of(kernels, [&](const KernelPlace &other) {
        return other.sharesKernel(place);
      }))
    return;
  kernels.push_back(place);
  // A lookup reads only the rows of its table that it looks up.
  bool isTable = isa<graph::GatherOp>(op) && source == op.getOperand(0);
  bytes[&op] += isTable ? getBytes(op.getResult(0)) : getBytes(source);
}

void KernelTimes::add(Operation &op) {
  if (isFree(&op))
    return;
  KernelPlace place;
  place.isCall =
      graph::isProduct(&op) || isa<sharding::MovementOp, graph::AttentionOp,
                                   graph::AttentionGradOp, graph::ScanOp>(op);
  place.phase = graph::getMarkedPhase(&op).value_or(graph::Phase::Forward);
  for (Value operand : op.getOperands())
    if (auto found = places.find(getSource(operand).getDefiningOp());
        found != places.end())
      place.depth = std::max(place.depth,
                             found->second.depth + int(found->second.isCall));
  if (place.isCall)
    times[&op] = getOpTime(&op, machine, model);
  else
    for (Value operand : op.getOperands())
      read(op, getSource(operand), place);
  places[&op] = place;
}

void KernelTimes::finish() {
  // True if a reader of the value, or of the same elements in another shape, is
  // in another kernel.
  std::function<bool(Value, const KernelPlace &)> leaves =
      [&](Value value, const KernelPlace &place) {
        return llvm::any_of(value.getUsers(), [&](Operation *user) {
          auto found = places.find(user);
          if (found != places.end())
            return !found->second.sharesKernel(place);
          if (user->getNumResults() == 1 && isFree(user) &&
              getSource(user->getResult(0)) != user->getResult(0))
            return leaves(user->getResult(0), place);
          return true;
        });
      };
  llvm::DenseSet<std::pair<int, int>> launched;
  for (auto &[op, place] : places) {
    if (place.isCall)
      continue;
    double moved = bytes.lookup(op);
    for (Value result : op->getResults())
      if (leaves(result, place))
        moved += getBytes(result);
    times[op] = 1e12 * moved / machine.getBytesPerSecond();
    // The first op of a kernel is launched for all of them.
    if (launched.insert({place.depth, static_cast<int>(place.phase)}).second)
      times[op] += machine.getLaunchTime();
  }
}

llvm::DenseMap<Operation *, double>
polyrank::cost::getKernelTimes(Block &block, const Machine &machine,
                               const CostModel *model) {
  KernelTimes times(machine, model);
  for (Operation &op : block)
    times.add(op);
  times.finish();
  return std::move(times.times);
}
