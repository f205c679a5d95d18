// What ranks that run different functions say to each other in a step.

#pragma once

#include "dialects/rank/Programs.h"
#include "runtime/progress/RankPrograms.h"

namespace polyrank::lowering {

/// All that each function communicates in one step, in order: what stands in
/// front of its microbatches, each run of its schedule, and what stands behind.
///
/// A send is a start. In front of it stands the wait for the one as many before
/// it as its channel has slots, since it reuses that one's slot; those of the
/// last ones stand at the program's end, so a step begins with empty channels.
/// A receive starts the transfer and waits for it.
struct PipelinePrograms {
  progress::RankPrograms ranks; // program i is that of function i
  /// Of each program, the op of each of its commands.
  std::vector<std::vector<mlir::Operation *>> commands;
};

/// Fails, with an error at the command, where one communicates over another
/// mesh than others, where a wait stands in another segment than what it waits
/// for, where ranks run an end of a transfer that is not theirs, or where a
/// function moves a value (an id) twice for one microbatch.
mlir::FailureOr<PipelinePrograms>
getPipelinePrograms(const rank::Programs &programs);

} // namespace polyrank::lowering
