// The attempts of a run: starts of all ranks, until one comes to its end.

#pragma once

#include "runtime/feed/Feed.h"
#include "runtime/launch/Restarts.h"
#include "runtime/session/RankReports.h"
#include "runtime/session/SessionJobs.h"

#include <optional>
#include <string>
#include <vector>

namespace polyrank::runtime {

class Attempts {
public:
  /// All must outlive this object.
  Attempts(Prepared &run, RunPage &page, Progress &progress,
           RunCheckpoints &checkpoints, RankReports &reports,
           const EndSignals &signals)
      : run(run), page(page), progress(progress), checkpoints(checkpoints),
        reports(reports), signals(signals), restarts(run.options.restarts) {}

  /// Starts the ranks, and restarts them as long as that may help: from an
  /// older checkpoint if they find theirs damaged, from the newest one if they
  /// fail. `launch` has all that does not depend on the attempt.
  Result<void> launchAll(LaunchOptions launch);
  /// Called often while ranks run: tells what there is to tell of the feed.
  void tick();
  /// The exit status of the run, after `launchAll` without an error.
  int status() const { return judged; }
  /// The number of restarts after failures.
  uint32_t numRestarts() const { return restarts.count(); }

private:
  /// One start of the ranks, and how they have ended. Where machines share them
  /// it does not fail: what prevents the start ends the attempt of all.
  Result<LaunchEnd> attempt(LaunchOptions &launch, bool isFirst);
  /// Fails if there is no memory for the ranks to meet in.
  Result<LaunchEnd> launchOnce(LaunchOptions &launch);
  /// Tells the ranks of the next attempt from where they begin.
  Result<void> begin(LaunchOptions &launch, bool isFirst);
  /// Starts the feed, if the samples come from one, with the first sample that
  /// the ranks want.
  Result<void> startFeed();
  /// Decides whether there is another attempt after one that has failed, and
  /// from where it begins; an error if there is none.
  Result<void> prepareNext(LaunchOptions &launch, const LaunchEnd &end);
  /// The same on a machine that shares the ranks with machine 0, which decides.
  Result<void> awaitNext(LaunchOptions &launch, const LaunchEnd &end);
  /// Waits as Restarts demands, and chooses from where the ranks begin again;
  /// an error if they do not.
  Result<void> prepareRestart(const LaunchEnd &end);
  /// Begins the next start together with all other machines, if there are any.
  Result<void> startAgain(LaunchOptions &launch);
  /// Judged by the step that a rank has begun, not by reports: a rank may die
  /// before another one's report of the previous step has arrived.
  Attempt howFar(const LaunchEnd &end) const;
  bool hasBegunStep() const { return page.lastBegun() > page.facts().step; }
  /// The error of a run that a signal has ended while ranks ran. It is
  /// Preempted if the checkpoints have all that the run did.
  std::optional<Error> endedBySignal(const LaunchEnd &end) const;
  /// The same while no rank ran. With checkpoints all that can be saved is
  /// saved.
  Error endBetweenAttempts(int signal, const std::string &why = "") const;
  /// The descriptors that ranks inherit, in the order of JobFile.
  std::vector<int> descriptorsWith(const SessionJobs &jobs) const;

  Prepared &run;
  RunPage &page;
  Progress &progress;
  RunCheckpoints &checkpoints;
  RankReports &reports;
  const EndSignals &signals;
  Restarts restarts;
  int judged = 0;
  std::unique_ptr<Feed> feed; // while ranks run
};

} // namespace polyrank::runtime
