// Runs the twins of the cuda target's kernels.

#pragma once

#include "test/compiler/target/schedule/Executor.h"

namespace polyrank::target {

std::unique_ptr<Executor> createCudaExecutor();

} // namespace polyrank::target
