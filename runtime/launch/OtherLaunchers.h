// Detects that torchrun, mpirun or srun has started this process as one of
// several.

#pragma once

#include "support/Result.h"

#include <functional>

namespace polyrank::runtime {

/// Returns the value of an environment variable, or null if it is not set.
using Environment = std::function<const char *(const char *)>;

/// Fails if another launcher has started several copies of this program: each
/// would start all ranks of the plan and save to the same files. The result is
/// the same in every copy, so that none does anything. A single task of such a
/// launcher is allowed, and so is a batch script of Slurm, however many tasks
/// its job may have: only what srun starts has the variables of a step.
Result<void> checkStartedOnce(const Environment &environment);

} // namespace polyrank::runtime
