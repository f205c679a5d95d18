// The schedule of a module's pipeline.

#pragma once

#include "compiler/stage_order/Schedule.h"
#include "dialects/graph/Graph.h"
#include "mlir/IR/BuiltinOps.h"

namespace polyrank::lowering {

/// Returns the schedule that `pipeline.schedule` names (1F1B without it) for
/// `microbatches` microbatches. The module must have stages. Emits an error if
/// the schedule cannot be made, or if its stages are at other coordinates than
/// the module's.
mlir::FailureOr<stage_order::Schedule> getSchedule(mlir::ModuleOp module,
                                                   int64_t microbatches);

/// The number of slots that each transfer of the microbatches needs so that no
/// stage waits for a free slot before it sends.
mlir::FailureOr<int64_t> getSlots(mlir::ModuleOp module,
                                  graph::MicrobatchesOp op);

} // namespace polyrank::lowering
