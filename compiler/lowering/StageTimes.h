// The times of a pipeline's stages by the commands that they have become.

#pragma once

#include "mlir/IR/BuiltinOps.h"

#include <vector>

namespace polyrank::lowering {

/// Picoseconds of one stage in a microbatch, if nothing is waited for that
/// other programs send: as long as its segments take on a clock of their own.
struct StageTime {
  int64_t forward = 0;
  /// The time of the gradients of what the stage has received, and, if the
  /// schedule has them apart, that of the gradients of its weights.
  int64_t backward = 0, weights = 0;

  int64_t getSum() const { return forward + backward + weights; }
};

/// The times of all stages of a module whose commands are final. Where some
/// segments start sums and others add to them, the latter count. A stage has no
/// times if its commands are in no segments: with one microbatch stages run one
/// by one. The last microbatch, which is in one block with the update, does not
/// count. Emits an error if the module has no machine.
mlir::FailureOr<std::vector<StageTime>> getStageTimes(mlir::ModuleOp module);

} // namespace polyrank::lowering
