// What torchrun, mpirun and srun tell a process that they have started, in its
// environment.

#pragma once

#include "runtime/place/Environment.h"
#include "support/Result.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace polyrank::runtime {

/// A process that a launcher has started as one of several. Variables are
/// listed in `sources` as they were read: "GROUP_RANK=1".
struct LaunchedTask {
  std::string launcher;       // "torchrun"
  int task = 0, tasks = 1;    // among all that it has started
  int local = 0, locals = 1;  // among those on this machine
  std::optional<int> machine; // empty: only an exchange of the tasks can tell
  std::optional<int> machines;
  /// The id of the job, from which its port follows; empty: it has none.
  std::string job;
  /// Where machine 0 is; empty: not told.
  std::string host;
  uint16_t port = 0; // that is reserved for this job; 0: none
  /// True if the tasks can exchange values by PMIx.
  bool hasPmix = false;
  std::vector<std::string> sources;
  /// The option by which the launcher itself starts tasks again; empty: none.
  std::string restartOption;
  /// How to start one task.
  std::string alone;

  bool operator==(const LaunchedTask &) const = default;
};

/// Returns what the innermost launcher says that has started this process with
/// others; nothing if there is none: a single task is as good as no launcher,
/// and so is a batch script of Slurm. Fails if the variables of a launcher
/// contradict each other, or if some are missing; the error names them.
Result<std::optional<LaunchedTask>>
findLauncher(const Environment &environment);

} // namespace polyrank::runtime
