// Emits the remark about the stages.

#include "compiler/stages/StageReport.h"

#include <set>

#include "compiler/stages/StageCosts.h"
#include "compiler/stages/StagePatterns.h"
#include "dialects/graph/Boundary.h"
#include "dialects/graph/Provenance.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::stages;

void StageReport::add(Operation *op, int64_t stage) {
  Stage &entry = stages[stage];
  if (entry.ops++ == 0)
    entry.first = graph::getUserName(op);
  entry.last = graph::getUserName(op);
  entry.flops += getFlops(op);
}

void StageReport::countBytes() {
  auto stagesOf = [](Value value) {
    std::set<int64_t> users;
    for (Operation *user : value.getUsers())
      if (auto stage = graph::getStage(user))
        users.insert(*stage);
    return users;
  };
  graph::Boundary boundary(forward);
  for (BlockArgument argument : forward.getArguments()) {
    if (!boundary.isKept(argument.getArgNumber()))
      continue;
    bool isFirst = true;
    for (int64_t stage : stagesOf(argument)) {
      (isFirst ? stages[stage].owned : stages[stage].borrowed) +=
          getBytes(argument);
      isFirst = false;
    }
  }
  for (Operation &op : forward.getBody().front())
    if (auto stage = graph::getStage(&op))
      for (Value result : op.getResults())
        for (int64_t user : stagesOf(result))
          if (user != *stage)
            stages[*stage].sent += getBytes(result);
}

static std::string describeTime(int64_t picoseconds) {
  constexpr int64_t millisecond = 1'000'000'000;
  bool isLong = picoseconds >= millisecond;
  return llvm::formatv(
      "{0:F3} {1}", (isLong ? 1e-9 : 1e-6) * static_cast<double>(picoseconds),
      isLong ? "ms" : "us");
}

/// "12.5%".
static std::string describeShare(int64_t part, int64_t whole, int digits) {
  double percent =
      whole ? 100 * static_cast<double>(part) / static_cast<double>(whole) : 0;
  return digits == 1 ? llvm::formatv("{0:F1}%", percent).str()
                     : llvm::formatv("{0:F2}%", percent).str();
}

void StageReport::emit(StringRef axis, StringRef schedule) {
  countBytes();
  int64_t time = cut.objective.time, flops = 0;
  for (const Stage &stage : stages)
    flops += stage.flops;
  InFlightDiagnostic remark =
      emitRemark(forward->getParentOfType<ModuleOp>().getLoc());
  remark << "stages: the slowest of " << stages.size() << " on " << axis << " ("
         << schedule << ") takes " << describeTime(time)
         << " a microbatch, its transfers included; ";
  if (time == cut.bound)
    remark << "nothing less is possible (gap 0)";
  else
    remark << "at least " << describeTime(cut.bound)
           << " are needed without any (gap "
           << describeShare(time - cut.bound, time, 2) << ")";
  if (cut.considered < cut.places)
    remark << "; of " << cut.places << " places between ops " << cut.considered
           << " were looked at";
  for (auto [i, stage] : llvm::enumerate(stages)) {
    Diagnostic &note = remark.attachNote();
    note << "stage " << i << " at " << axis << "=" << coordinates[i] << ": '"
         << stage.first << "'";
    if (stage.ops > 1)
      note << " to '" << stage.last << "'";
    note << ", " << describeShare(stage.flops, flops, 1) << " of the FLOPs, "
         << stage.owned << " bytes of parameters";
    if (stage.borrowed)
      note << " and " << stage.borrowed << " of other stages'";
    if (stage.sent)
      note << ", sends " << stage.sent << " bytes a microbatch";
  }
}
