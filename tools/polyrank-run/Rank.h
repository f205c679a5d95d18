// What polyrank-run does in the process of one rank.

#pragma once

#include "runtime/launch/Launcher.h"
#include "tools/polyrank-run/Options.h"

namespace polyrank::runtime {

/// The order of LaunchOptions::descriptors. The second is memory: the outputs
/// of a forward run, or what a training run saves with. Behind the numJobFiles
/// that every job has come the arenas of an evaluating plan's job, where there
/// is one, and last the files of weights that are asked for, in the order of
/// RunOptions::saves and savedFilesOf.
enum JobFile {
  planFile,
  memoryFile,
  profileFile,
  traceFile,
  pageFile, // RunPage
  /// Of an evaluation: its plan and its memory, and of --eval-plan the control
  /// page of its job.
  evalPlanFile,
  evalMemoryFile,
  evalJobFile,
  numJobFiles
};

/// What an exception means, of which there are those of the standard library.
std::string describe(const std::exception &exception);

/// Runs the rank to its end; the exit status of the process.
int rankMain(const RunOptions &options, const RankConnection &connection);

} // namespace polyrank::runtime
