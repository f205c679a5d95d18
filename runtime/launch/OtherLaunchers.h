// Whether torchrun, mpirun or srun has started this process as one of several.

#pragma once

#include "support/Result.h"

#include <functional>

namespace polyrank::runtime {

/// The value of an environment variable, null where it is not set.
using Environment = std::function<const char *(const char *)>;

/// An error where another launcher has started several copies of this program.
/// Each would start all ranks of the plan and save to the same files. The same
/// in every copy, found before any of them does anything. One task of such a
/// launcher is as good as none, and so is a batch script of Slurm, however many
/// tasks its job may have: what srun starts has the variables of a step.
Result<void> checkStartedOnce(const Environment &environment);

} // namespace polyrank::runtime
