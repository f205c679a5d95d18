// Cuts @forward into stages.

#include "compiler/cost/Machine.h"
#include "compiler/stage_order/Schedule.h"
#include "compiler/stages/LaidOutCosts.h"
#include "compiler/stages/Passes.h"
#include "compiler/stages/StageCosts.h"
#include "compiler/stages/StagePatterns.h"
#include "compiler/stages/StageReport.h"
#include "dialects/graph/Boundary.h"
#include "dialects/graph/Provenance.h"

namespace polyrank::stages {
#define GEN_PASS_DEF_ASSIGNSTAGES
#include "compiler/stages/Passes.h.inc"
} // namespace polyrank::stages

using namespace mlir;
using namespace polyrank;
using namespace polyrank::stages;

namespace {
class AssignStages : public stages::impl::AssignStagesBase<AssignStages> {
public:
  using AssignStagesBase::AssignStagesBase;

  void runOnOperation() override {
    if (failed(assign()))
      signalPassFailure();
  }

private:
  LogicalResult assign();
  LogicalResult readOptions();
  /// "pipe=4".
  std::string describeAxis() const {
    return axis + "=" + std::to_string(ranks);
  }
  /// Return the ops that can have stages, and the ops that get stages.
  SmallVector<Operation *> findVarying();
  SmallVector<Operation *> findPlaced(ArrayRef<Operation *> varying,
                                      ArrayRef<int> patternOf);
  /// The number of microbatches that a stage has in flight.
  int64_t countLive(int64_t stage) const;
  LogicalResult refuse(const TooFewOps &few, ArrayRef<Operation *> ops,
                       const CutProblem &problem);

  func::FuncOp forward;
  int64_t count = 0; // of stages
  SmallVector<int64_t> coordinates;
  std::vector<StagePattern> parsed;
  std::optional<cost::Machine> machine;
};
} // namespace

LogicalResult AssignStages::readOptions() {
  ModuleOp module = getOperation();
  constexpr int64_t mostStages = 4096;
  if (ranks < 1 || chunks < 1 || ranks > mostStages ||
      chunks > mostStages / ranks)
    return emitError(module.getLoc(), "--chunks ")
           << chunks.getValue() << ": there are " << describeAxis()
           << " times as many stages, which must be 1 to " << mostStages;
  count = ranks * chunks;
  int64_t given = count;
  if (stages != "auto" &&
      (StringRef(stages).getAsInteger(10, given) || given < 1))
    return emitError(module.getLoc(), "--stages ")
           << stages.getValue() << ": expected auto or a number of stages";
  if (given != count)
    return emitError(module.getLoc(), "--stages ")
           << stages.getValue() << ": " << describeAxis() << " with --chunks "
           << chunks.getValue() << " has " << count << " stages"
           << (given % ranks == 0
                   ? "; for " + Twine(given) + " use --chunks " +
                         Twine(given / ranks)
                   : "; their number is a multiple of " + Twine(ranks));
  // Here the schedule is only checked; it is built where the microbatches are.
  Result<stage_order::Schedule> order = stage_order::makeSchedule(
      schedule, ranks, chunks, microbatches,
      train ? stage_order::trainParts : stage_order::forwardParts);
  if (!order)
    return emitError(module.getLoc(), order.error().message);
  coordinates.assign(order->coordinates.begin(), order->coordinates.end());
  for (const std::string &text : patterns) {
    Result<StagePattern> pattern = StagePattern::parse(text, count);
    if (!pattern)
      return emitError(module.getLoc(), pattern.error().message);
    parsed.push_back(*std::move(pattern));
  }
  FailureOr<cost::Machine> found = cost::Machine::of(module);
  if (failed(found))
    return failure();
  machine = *found;
  return success();
}

SmallVector<Operation *> AssignStages::findVarying() {
  SmallVector<Operation *> varying;
  llvm::DenseSet<Operation *> known;
  for (Operation &op : forward.getBody().front().without_terminator())
    if (llvm::any_of(op.getOperands(), [&](Value operand) {
          return isa<BlockArgument>(operand) ||
                 known.contains(operand.getDefiningOp());
        })) {
      known.insert(&op);
      varying.push_back(&op);
    }
  return varying;
}

SmallVector<Operation *> AssignStages::findPlaced(ArrayRef<Operation *> varying,
                                                  ArrayRef<int> patternOf) {
  SmallVector<Operation *> placed;
  llvm::DenseSet<Operation *> known;
  for (auto [op, pattern] : llvm::zip_equal(varying, patternOf))
    if (pattern >= 0 || llvm::any_of(op->getOperands(), [&](Value operand) {
          return graph::Boundary::isParameterOrState(operand) ||
                 known.contains(operand.getDefiningOp());
        })) {
      known.insert(op);
      placed.push_back(op);
    }
  return placed;
}

/// At stage k a microbatch's backward comes after its backwards at all later
/// stages. With one forward per backward, no more microbatches have begun than
/// fit into these stages; with gpipe all have begun.
int64_t AssignStages::countLive(int64_t stage) const {
  return !train                ? 1
         : schedule == "gpipe" ? microbatches
                               : std::min<int64_t>(microbatches, count - stage);
}

LogicalResult AssignStages::refuse(const TooFewOps &few,
                                   ArrayRef<Operation *> ops,
                                   const CutProblem &problem) {
  int64_t needed = few.last - few.first + 1;
  InFlightDiagnostic error = emitError(getOperation().getLoc());
  if (few.after < 0 && few.before < 0)
    return error << "the model has " << few.ops
                 << " ops that depend on parameters, fewer than the " << needed
                 << " stages; use fewer (" << describeAxis()
                 << " with --chunks " << chunks.getValue() << ")";
  auto name = [&](int op) {
    return graph::describe(ops[op]) + " (stage " +
           std::to_string(problem.ops[op].fixed) + ")";
  };
  error << "--stage leaves "
        << (few.ops == 0
                ? "no op"
                : std::to_string(few.ops) + (few.ops == 1 ? " op" : " ops"));
  if (few.after >= 0 && few.before >= 0)
    error << " between " << name(few.after) << " and " << name(few.before);
  else if (few.after >= 0)
    error << " after " << name(few.after);
  else
    error << " before " << name(few.before);
  error << ", fewer than the " << needed << (needed == 1 ? " stage" : " stages")
        << " there (" << few.first;
  if (needed > 1)
    error << " to " << few.last;
  return error << "); each stage needs an op";
}

LogicalResult AssignStages::assign() {
  ModuleOp module = getOperation();
  forward = module.lookupSymbol<func::FuncOp>("forward");
  if (!forward || !llvm::hasSingleElement(forward.getBody()))
    return emitError(module.getLoc(),
                     "expected a function @forward of one block");
  if (failed(readOptions()))
    return failure();
  // Unused ops must not fill a stage.
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(forward.getBody().front())))
    if (isOpTriviallyDead(&op))
      op.erase();
  SmallVector<Operation *> varying = findVarying();
  FailureOr<std::vector<int>> patternOf = findPatterns(module, varying, parsed);
  if (failed(patternOf))
    return failure();
  SmallVector<Operation *> ops = findPlaced(varying, *patternOf);
  CutProblem problem = getCutProblem(forward, ops, *machine, train);
  problem.link = machine->getLink(axis);
  problem.stages = static_cast<int>(count);
  for (int64_t stage = 0; stage < count; ++stage)
    problem.live.push_back(countLive(stage));
  llvm::DenseMap<Operation *, int> numberOf;
  for (auto [i, op] : llvm::enumerate(ops))
    numberOf[op] = static_cast<int>(i);
  for (auto [op, pattern] : llvm::zip_equal(varying, *patternOf))
    if (pattern >= 0)
      problem.ops[numberOf[op]].fixed =
          static_cast<int>(parsed[pattern].getStage());

  auto found = cutIntoStages(problem);
  if (auto *few = std::get_if<TooFewOps>(&found))
    return refuse(*few, ops, problem);
  const Cut &cut = std::get<Cut>(found);
  Builder builder(&getContext());
  StageReport report(forward, cut, coordinates);
  for (int64_t stage = 0, i = 0; stage < count; ++stage)
    for (; i < cut.ends[stage]; ++i) {
      Operation *op = ops[cut.order[i]];
      graph::setStage(op, stage);
      report.add(op, stage);
    }
  removeLaidOutCosts(module);
  module->setAttr(pipeline::axisAttrName, builder.getStringAttr(axis));
  module->setAttr(pipeline::coordinatesAttrName,
                  builder.getDenseI64ArrayAttr(coordinates));
  module->setAttr(pipeline::scheduleAttrName, builder.getStringAttr(schedule));
  report.emit(axis, schedule);
  return success();
}
