// The options of polyrank-run about checkpoints.

#pragma once

#include "runtime/checkpoint/Commit.h"

#include <string>

namespace polyrank::runtime {

struct CheckpointOptions {
  std::string folder; // --checkpoint; empty: none are written
  uint64_t everySteps = 0;
  uint64_t everySeconds = 0; // both 0: only after the last step
  Retention retention;
  std::string resume; // --resume: a folder of checkpoints, one of them, or auto
  bool resetOptimizer = false, resetData = false;
};

} // namespace polyrank::runtime
