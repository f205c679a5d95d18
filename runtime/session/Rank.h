// The part of polyrank-run that runs in the process of one rank.

#pragma once

#include "runtime/launch/Launcher.h"
#include "runtime/session/SessionOptions.h"

#include <span>

namespace polyrank::runtime {

/// The order of LaunchOptions::descriptors. The second is a window: of the
/// outputs of a forward run, or of what a training run saves. After the
/// numJobFiles that every job has come the files by which transports attach,
/// that of the training and, if there is an evaluating plan, that of the
/// evaluation; and last the requested files of weights, in the order of
/// SessionOptions::saves and savedFilesOf.
enum JobFile {
  planFile,
  windowFile,
  profileFile,
  traceFile,
  pageFile, // RunPage
  /// For an evaluation: its plan and its window.
  evalPlanFile,
  evalWindowFile,
  numJobFiles
};

/// The number of files by which each transport attaches.
inline int transportFilesOf(int ranks) { return 1 + ranks; }
/// The files of transport `number`, counted from 0.
inline std::span<const int> transportFiles(const RankConnection &connection,
                                           int ranks, int number) {
  int count = transportFilesOf(ranks);
  return std::span(connection.descriptors())
      .subspan(numJobFiles + number * count, count);
}

/// Describes an exception of the standard library.
std::string describe(const std::exception &exception);

/// Runs the rank to its end. Returns the exit status of the process.
int rankMain(const SessionOptions &options, const RankConnection &connection);

} // namespace polyrank::runtime
