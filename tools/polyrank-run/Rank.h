// What polyrank-run does in the process of one rank.

#pragma once

#include "runtime/launch/Launcher.h"
#include "tools/polyrank-run/Options.h"

namespace polyrank::runtime {

/// The order of LaunchOptions::descriptors. The second is memory: the outputs of
/// a forward run, or what a training run saves with.
/// The files of weights that are asked for come last, in the order of
/// RunOptions::saves and savedFilesOf.
enum JobFile {
  planFile,
  memoryFile,
  profileFile,
  traceFile,
  pageFile, // RunPage
  firstSaveFile
};

/// Runs the rank to its end; the exit status of the process.
int rankMain(const RunOptions &options, const RankConnection &connection);

} // namespace polyrank::runtime
