// The communication of one step among ranks that run different functions.

#pragma once

#include "dialects/rank/Programs.h"
#include "runtime/progress/RankPrograms.h"

namespace polyrank::lowering {

/// All communication of each function in one step, in order: what comes before
/// its microbatches, each run in its schedule, and what comes after them.
///
/// A send is a start. Since it reuses the slot of the send that came as many
/// sends earlier as its channel has slots, the wait for that one comes just
/// before it. The waits for the last sends come at the program's end, so a step
/// begins with empty channels. A receive starts the transfer and waits for it.
struct PipelinePrograms {
  progress::RankPrograms ranks; // program i is that of function i
  /// By program: the op of each command.
  std::vector<std::vector<mlir::Operation *>> commands;
};

/// Fails, with an error at the command, if commands communicate over different
/// meshes, if a wait is in another segment than the start that it waits for, if
/// ranks run an end of a transfer that is not theirs, or if a function moves a
/// value (an id) twice for one microbatch.
mlir::FailureOr<PipelinePrograms>
getPipelinePrograms(const rank::Programs &programs);

} // namespace polyrank::lowering
