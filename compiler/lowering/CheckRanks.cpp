// CheckRanks: the communication of all ranks agrees and ends.

#include "compiler/communication/CheckPrograms.h"
#include "compiler/lowering/Passes.h"
#include "compiler/lowering/SegmentPrograms.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::lowering;

namespace polyrank::lowering {
#define GEN_PASS_DEF_CHECKRANKS
#include "compiler/lowering/Passes.h.inc"
} // namespace polyrank::lowering

/// At the command of the counterexample that comes first, with the others as
/// notes at theirs.
static LogicalResult report(const communication::Fault &fault,
                            ArrayRef<Operation *> commands) {
  const communication::Fault::Step &first = fault.steps.front();
  InFlightDiagnostic error =
      commands[std::min(first.command, commands.size() - 1)]->emitOpError()
      << "and what follows it do not end on all ranks: " << fault.what << ": "
      << first.text;
  for (const communication::Fault::Step &step :
       ArrayRef(fault.steps).drop_front())
    error.attachNote(
        commands[std::min(step.command, commands.size() - 1)]->getLoc())
        << step.text;
  return failure();
}

/// Segments are checked one by one. Each leaves every rank at its end with
/// nothing in flight, and the result of waiting for each other does not depend
/// on speed, so any schedule of segments that is the same on all ranks ends
/// too.
static LogicalResult checkFunction(func::FuncOp function) {
  FailureOr<std::vector<SegmentPrograms>> segments =
      getSegmentPrograms(function);
  if (failed(segments))
    return failure();
  DenseSet<int64_t> before; // of what stands before the microbatches
  for (auto [i, segment] : llvm::enumerate(*segments)) {
    // Each microbatch moves the values of the others again.
    DenseSet<int64_t> ids = before;
    for (Operation *command : segment.commands)
      if (auto op = dyn_cast<rank::CollectiveOp>(command);
          op && !ids.insert(op.getId()).second)
        return op->emitOpError("moves the value with id ")
               << op.getId() << " a second time in one segment";
    if (i == 0)
      before = ids;
    if (auto fault = communication::checkPrograms(segment.ranks).fault)
      return report(*fault, segment.commands);
  }
  return success();
}

namespace {
struct CheckRanksPass : lowering::impl::CheckRanksBase<CheckRanksPass> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && failed(checkFunction(function)))
        return signalPassFailure();
  }
};
} // namespace
