// What polyrank-run does in the process of one rank.

#pragma once

#include "runtime/launch/Launcher.h"
#include "tools/polyrank-run/Options.h"

namespace polyrank::runtime {

/// The order of LaunchOptions::descriptors. The second is memory: the outputs of
/// a forward run, or what a training run saves with.
/// Files of weights are in the order of RunOptions::saves.
enum JobFile {
  planFile,
  memoryFile,
  firstSaveFile,
  profileFile = firstSaveFile + numSaveFiles,
  traceFile,
  /// Of an evaluation: its plan, its memory, and behind its control page the
  /// arenas of all ranks. They are the last.
  evalPlanFile,
  evalMemoryFile,
  evalJobFile
};

/// Runs the rank to its end; the exit status of the process.
int rankMain(const RunOptions &options, const RankConnection &connection);

} // namespace polyrank::runtime
