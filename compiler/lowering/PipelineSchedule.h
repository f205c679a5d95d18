// The schedule of a module's pipeline.

#pragma once

#include "compiler/stage_order/Schedule.h"
#include "dialects/graph/Graph.h"
#include "mlir/IR/BuiltinOps.h"

namespace polyrank::lowering {

/// That of `pipeline.schedule` (without it one forward and one backward in
/// turn) for `microbatches` microbatches. Emits an error where it cannot be
/// made, or is for stages at other coordinates than the module's, which has
/// stages.
mlir::FailureOr<stage_order::Schedule> getSchedule(mlir::ModuleOp module,
                                                   int64_t microbatches);

/// How many slots each transfer of the microbatches needs, so that no stage
/// waits for memory of what it sends.
mlir::FailureOr<int64_t> getSlots(mlir::ModuleOp module,
                                  graph::MicrobatchesOp op);

} // namespace polyrank::lowering
