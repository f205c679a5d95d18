// A process that joins a run on this machine as one of its ranks.

#pragma once

#include <optional>
#include <string>

namespace polyrank::runtime {

/// What such a process is given. All other options are those of the run.
struct JoinRunOptions {
  std::string job; // SessionOptions::guests of the run
  int rank = -1;
  /// The plan's file and its SHA-256, if the process is to find out whether the
  /// run has the same one.
  std::string plan, sha256;
  /// Seconds to wait for the run to begin; 0: for ever.
  double timeout = 60;
  bool quiet = false;
};

/// Joins the run and becomes the rank. Returns only if that fails, with the
/// exit status, after the user was told why.
int joinRun(const JoinRunOptions &options);

} // namespace polyrank::runtime
