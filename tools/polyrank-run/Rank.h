// The part of polyrank-run that runs in the process of one rank.

#pragma once

#include "runtime/launch/Launcher.h"
#include "tools/polyrank-run/Options.h"

namespace polyrank::runtime {

/// The order of LaunchOptions::descriptors. The second is memory: the outputs
/// of a forward run, or the memory by which a training run saves. After the
/// numJobFiles that every job has come the arenas of an evaluating plan's job,
/// if there is one, and last the requested files of weights, in the order of
/// RunOptions::saves and savedFilesOf.
enum JobFile {
  planFile,
  memoryFile,
  profileFile,
  traceFile,
  pageFile, // RunPage
  /// For an evaluation: its plan and its memory, and with --eval-plan the
  /// control page of its job.
  evalPlanFile,
  evalMemoryFile,
  evalJobFile,
  numJobFiles
};

/// Describes an exception of the standard library.
std::string describe(const std::exception &exception);

/// Runs the rank to its end. Returns the exit status of the process.
int rankMain(const RunOptions &options, const RankConnection &connection);

} // namespace polyrank::runtime
