// check-ranks: checks that the communication of all ranks agrees and
// terminates.

#include "compiler/lowering/Passes.h"
#include "compiler/lowering/PipelinePrograms.h"
#include "compiler/lowering/SegmentPrograms.h"
#include "runtime/progress/CheckPrograms.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::lowering;

namespace polyrank::lowering {
#define GEN_PASS_DEF_CHECKRANKS
#include "compiler/lowering/Passes.h.inc"
} // namespace polyrank::lowering

/// Emits the error at the first command of the counterexample, with notes at
/// the other commands. `getOp` returns the op of a command, given a program and
/// a number.
static LogicalResult
report(const progress::Fault &fault,
       llvm::function_ref<Operation *(int32_t, size_t)> getOp) {
  const progress::Fault::Step &first = fault.steps.front();
  InFlightDiagnostic error = getOp(first.program, first.command)->emitOpError()
                             << "and what follows it do not end on all ranks: "
                             << fault.what << ": " << first.text;
  for (const progress::Fault::Step &step : ArrayRef(fault.steps).drop_front())
    error.attachNote(getOp(step.program, step.command)->getLoc()) << step.text;
  return failure();
}

/// The op of a fault's step; the last command if the program ends too early.
static Operation *getOpAt(ArrayRef<Operation *> commands, size_t number) {
  return commands[std::min(number, commands.size() - 1)];
}

/// Checks segments one by one. Each leaves every rank at its end with nothing
/// in flight, and progress does not depend on speed, so any order of segments
/// that is the same on all ranks terminates too.
static LogicalResult checkFunction(func::FuncOp function) {
  FailureOr<std::vector<SegmentPrograms>> segments =
      getSegmentPrograms(function);
  if (failed(segments))
    return failure();
  DenseSet<int64_t> before; // ids before the microbatches
  for (auto [i, segment] : llvm::enumerate(*segments)) {
    // Each microbatch moves the same ids again.
    DenseSet<int64_t> ids = before;
    for (Operation *command : segment.commands)
      if (auto op = dyn_cast<rank::CollectiveOp>(command);
          op && !ids.insert(op.getId()).second)
        return op->emitOpError("moves the value with id ")
               << op.getId() << " a second time in one segment";
    if (i == 0)
      before = ids;
    if (auto fault = progress::checkPrograms(segment.ranks).fault)
      return report(*fault, [&](int32_t, size_t command) {
        return getOpAt(segment.commands, command);
      });
  }
  return success();
}

/// Checks functions of different ranks as they run together, a step from its
/// begin to its end: how they interleave depends on all their schedules. A step
/// leaves all channels empty, so if one terminates, any number of steps does.
static LogicalResult checkTogether(const rank::Programs &programs) {
  FailureOr<PipelinePrograms> all = getPipelinePrograms(programs);
  if (failed(all))
    return failure();
  auto fault = progress::checkPrograms(all->ranks).fault;
  if (!fault)
    return success();
  return report(*fault, [&](int32_t program, size_t command) {
    ArrayRef<Operation *> commands = all->commands[program];
    func::FuncOp function = programs.getFunctions()[program];
    return commands.empty() ? function.getOperation()
                            : getOpAt(commands, command);
  });
}

namespace {
struct CheckRanksPass : lowering::impl::CheckRanksBase<CheckRanksPass> {
  void runOnOperation() override {
    FailureOr<rank::Programs> programs = rank::Programs::of(getOperation());
    if (failed(programs))
      return signalPassFailure();
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() &&
          !llvm::is_contained(programs->getFunctions(), function) &&
          failed(checkFunction(function)))
        return signalPassFailure();
    if (!programs->empty() && failed(checkTogether(*programs)))
      return signalPassFailure();
  }
};
} // namespace
