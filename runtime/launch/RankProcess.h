// The process of one rank, as its launcher sees it: a child that it has
// started, or a guest that somebody else has started.

#pragma once

#include "support/File.h"

#include <memory>
#include <optional>
#include <sched.h>
#include <string>
#include <vector>

namespace polyrank::runtime {

/// What a rank's process gets from its launcher.
struct RankStart {
  std::vector<std::string> arguments;
  /// Where a guest begins, so that names of files mean the same to all ranks.
  std::string folder = {};
  /// Variables that the rank has beside the user's own ones.
  std::vector<std::string> environment;
  /// Open files: those by which the rank joins its job, and the others
  /// (LaunchOptions::descriptors); -1 for one that is not used.
  std::vector<int> jobFiles, files;
  /// The signals that the rank ignores, since they are for its launcher.
  std::vector<int> ignoredSignals;
  std::optional<cpu_set_t> cores; // that the rank may use; default: any
};

/// The environment and the open files by which a rank's process finds its
/// launcher; `reports` is the descriptor that it reports to. See
/// RankConnection::fromEnvironment.
std::vector<std::string> environmentOf(const RankStart &start, int reports);

class RankProcess {
public:
  virtual ~RankProcess() = default;

  int pid() const { return number; }
  /// What the rank reports can be read from here, without waiting.
  int reports() const { return stream.get(); }
  void closeReports() { stream = Descriptor(); }

  /// True until `reap` has found that it has ended.
  bool isRunning() const { return running; }
  /// Returns true if the process has ended since the last call.
  bool reap();
  /// Kills the process.
  virtual void kill() = 0;
  /// Waits until the process has ended.
  virtual void await() = 0;

  /// Called after the end. True unless the process is known to have failed:
  /// nobody but its parent learns how a process ends.
  bool hasSucceeded() const { return !status || *status == 0; }
  bool isEndKnown() const { return status.has_value(); }
  /// The signal that has ended it; 0: none that is known.
  int endSignal() const;
  /// "was killed by signal 9 (Killed)".
  std::string describeEnd() const;

protected:
  RankProcess(int pid, Descriptor reports)
      : number(pid), stream(std::move(reports)) {}

  /// Returns true if the process has ended, and sets `status` if it is known.
  virtual bool hasEnded() = 0;

  int number;
  Descriptor stream;
  bool running = true;
  std::optional<int> status; // of waitpid
};

/// Runs this program again, with these arguments. It dies with this process.
/// `mask` are the signals that it blocks.
Result<std::unique_ptr<RankProcess>> startChild(const RankStart &start,
                                                const sigset_t &mask);

/// A process that is no child, which `pidFile` (a pidfd) stands for. It reports
/// to `socket`.
std::unique_ptr<RankProcess> watchGuest(int pid, Descriptor pidFile,
                                        Descriptor socket);

} // namespace polyrank::runtime
