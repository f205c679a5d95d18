// The launcher's view of the other machines of its job; of none, if it is
// alone.

#pragma once

#include "runtime/job/OtherMachines.h"
#include "runtime/launch/Launcher.h"
#include "runtime/launch/Watch.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace polyrank::runtime {

class Elsewhere {
public:
  /// `options.others` may be null; then nothing ever happens elsewhere. The job
  /// is aborted as soon as another machine fails, until this object ends.
  Elsewhere(const LaunchOptions &options, JobControl &job);
  Elsewhere(const Elsewhere &) = delete;
  ~Elsewhere();

  bool isAnywhere() const { return others; }
  /// True if this launcher judges whether all ranks of the job make progress:
  /// where machines share them out, that of machine 0 does.
  bool isToJudge() const;
  /// All ranks of the job: those of this machine, and what is known of the
  /// others.
  std::vector<WatchedRank> withOthers(std::vector<WatchedRank> here) const;
  /// For how long all ranks of the job have waited for each.
  std::vector<uint64_t> awaited() const;
  /// Brings a message of a rank here to machine 0, if this is another one and
  /// they share the ranks out; else returns false.
  bool takesReport(int rank, const std::string &line);
  /// The messages that ranks of other machines have sent, taken once.
  std::vector<OtherMachines::Report> takeReports();
  /// Tells the others which processes the ranks are, and shows what they have
  /// told. To be called often.
  void tick(const std::vector<WatchedRank> &ranks);

  /// What has failed on another machine before anything failed here, with the
  /// name of that machine.
  std::optional<Error> failure();
  /// The rank of another machine that has failed first, if `failure` returned
  /// it; -1: none is known.
  int failedRank() const { return culprit; }
  /// Something has failed here: the other machines end too. Only the first call
  /// counts. `rank` may be -1. See MachineFailure for the others.
  void fail(int rank, const Error &error, bool fromOutside, int signal = 0);
  /// Shows a text on the terminal of machine 0.
  void tell(const std::string &text);

  /// Asks that the ranks of all machines end after the same step.
  void requestStop(int signal);
  std::optional<OtherMachines::Stop> stop() const;

  /// Called once the ranks of this machine have ended, with how. Waits for the
  /// others, and returns how the job has ended: with the first failure of all.
  /// Returns early once `isInterrupted` returns true. What the first failure
  /// says of itself is added if it was another machine's. `judge` is called
  /// where a job has ended well, and where machines share the ranks out on
  /// machine 0 alone, whose answer all return.
  LaunchEnd conclude(const LaunchEnd &here,
                     const std::function<bool()> &isInterrupted,
                     const std::function<int()> &judge);

private:
  /// The exit status of the run, or how the job has failed.
  Result<int> concluded(const LaunchEnd &here,
                        const std::function<bool()> &isInterrupted,
                        const std::function<int()> &judge);
  /// Shows where the ranks of a machine were when it was last heard.
  void showRanksOf(int machine) const;
  Error named(const MachineFailure &failure) const;

  const LaunchOptions &options;
  JobControl &job;
  OtherMachines *others;
  int culprit = -1;
  std::vector<int32_t> pids;
  bool hasFailed = false; // here
  bool hasShown = false;
};

} // namespace polyrank::runtime
