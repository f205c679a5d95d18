// The remark about the time of a pipeline's step.

#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "runtime/plan/StepTimeline.h"

namespace polyrank::driver {

/// Emits how long a step of a pipeline takes by the plan's timeline, a lower
/// bound, the slowest stage, and, for each coordinate of the pipe axis, how
/// long a rank is idle and how many microbatches it holds. Says nothing of a
/// module without stages, or with a single microbatch. Fails only with an error
/// about the module.
mlir::LogicalResult reportStep(mlir::ModuleOp module,
                               const runtime::PlanTimeline &timeline);

} // namespace polyrank::driver
