// One run as the launcher sees it: from the checked input to the written files.

#pragma once

#include "runtime/job/OtherMachines.h"
#include "runtime/report/RunReport.h"
#include "runtime/session/Attempts.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace polyrank::runtime {

/// What a run has done, for those who describe it.
struct RunEnd {
  const Prepared &run;
  const Progress &progress;
  const std::vector<RankUse> &uses; // by rank
  uint64_t skippedSaves, tracedSteps;
  std::optional<double> rehearsedSeconds; // of a step, by times and links
  uint32_t restarts;
};

/// Checks the input, starts the ranks, shows their progress, restarts them if
/// that may help, and writes what they leave.
class Run {
public:
  /// `hasBegun` becomes true once all input that precedes the run has been
  /// read.
  Run(const SessionOptions &given, bool &hasBegun)
      : given(given), hasBegun(hasBegun) {}

  /// Returns once all files are written.
  Result<void> run();

  /// After `run`: the options of the run that this one is to be followed by, in
  /// the same process, since fewer machines go on with another plan. What `run`
  /// returned is of no matter then.
  const std::optional<SessionOptions> &next() const { return following; }

  /// True if this machine writes the files of the run, and shows its end.
  bool isWriter() const { return !prepared || prepared->isWriter(); }

  /// After `run` without an error: what was done, and what failed meanwhile
  /// without ending the run.
  RunEnd end() const;
  const Result<void> &logged() const { return closed; }
  Result<void> checkpointed() const;

  /// The exit status of a run without an error; the same on all machines that
  /// share the ranks out.
  int status() const { return attempts ? attempts->status() : 0; }
  uint64_t stepsDone() const { return progress ? progress->stepsDone() : 0; }
  /// True if the user interrupted the wait for a thread that still writes to
  /// the disk.
  bool isAbandoned() const { return checkpoints && checkpoints->isAbandoned(); }

private:
  /// True of a spare that has waited until the other machines were done.
  bool isUnusedSpare() const {
    return prepared->options.machines.isSpare() && !others;
  }
  /// Joins the other machines of the job, if there are any.
  Result<void> joinOthers();
  /// Runs what is prepared, with the other machines.
  Result<void> runPrepared();
  /// Opens the log, and tells the user what begins.
  Result<void> openProgress();
  /// Prepares what ranks and launcher share before the first step.
  Result<void> openPage();
  /// Tells the ranks the identities of the files that they must find under the
  /// names in the options.
  Result<void> setIdentities();
  /// The first rank that comes as a guest, where any does: a process that a
  /// launcher has started for a rank starts that one itself.
  int firstGuest() const { return given.place.hasTaskPerRank() ? 1 : 0; }
  /// Tells the user how the ranks are to be started.
  void tellGuests() const;
  /// Describes how the ranks are started, and claims their cores.
  Result<LaunchOptions> launchOptions();

  /// The error of a run that ended early, with what it has left.
  Error describeFailure(const Error &error) const;

  /// Sets what follows if fewer machines go on.
  void goOnWithFewer(const OtherMachines::Fewer &fewer);

  SessionOptions given;
  bool &hasBegun;
  std::optional<SessionOptions> following;
  std::optional<Prepared> prepared;
  std::unique_ptr<OtherMachines> others;
  std::optional<double> rehearsedSeconds; // of a step, by times and links
  std::unique_ptr<Progress> progress;
  std::optional<EndSignals> signals;
  std::optional<GuestDoor> door; // of ranks that come as guests
  std::optional<RunPage> page;
  std::optional<RunCheckpoints> checkpoints;
  std::optional<RankReports> reports;
  std::optional<Attempts> attempts;
  Result<void> closed; // of the log
};

/// The files that the options name, for reports.
RunFiles filesOf(const SessionOptions &options);

} // namespace polyrank::runtime
