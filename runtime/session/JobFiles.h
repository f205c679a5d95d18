// The files and memory that the launcher hands to its ranks.

#pragma once

#include "runtime/comm/MakeCommunicator.h"
#include "runtime/launch/Launcher.h"

#include <span>

namespace polyrank::runtime {

/// The order of LaunchOptions::descriptors; -1 stands for one that the session
/// does not need. After the numJobFiles that every job has come the files by
/// which communicators attach: those of the plan's communicator and, if there
/// is an evaluating plan, those of its communicator. Last come the requested
/// files of weights, in the order of SessionOptions::saves and savedFilesOf.
enum JobFile {
  planFile,
  windowFile, // of the outputs of a forward run, or of what is saved
  profileFile,
  traceFile,
  pageFile, // RunPage
  /// For an evaluation: its plan and its window.
  evalPlanFile,
  evalWindowFile,
  feedFile, // FeedRing
  numJobFiles
};

/// The number of files by which a rank of this job attaches.
inline int communicatorFilesIn(const Job &job) {
  RankRange here = job.here();
  return communicatorFilesOf(here.count, job.worldSize() / here.count);
}

/// The files of communicator `number`, counted from 0.
inline std::span<const int> communicatorFiles(const RankConnection &connection,
                                              const Job &job, int number) {
  int count = communicatorFilesIn(job);
  return std::span(connection.descriptors())
      .subspan(size_t(numJobFiles + number * count), size_t(count));
}

} // namespace polyrank::runtime
