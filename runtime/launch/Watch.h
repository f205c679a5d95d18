// Detects that a job makes no progress.

#pragma once

#include "runtime/launch/RankTable.h"

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace polyrank::runtime {

/// A rank's process, as the watch sees it.
struct WatchedRank {
  int pid = -1;         // -1: of a guest that has not come
  bool running = false; // not yet reaped
  /// The processState as another machine has told it; nothing: the process runs
  /// on this one.
  std::optional<char> told{};

  char state() const;
};

/// Observes the progress of a job's ranks. A job makes progress as long as any
/// of its ranks does: the rank starts, reaches another command or barrier,
/// reads or writes a part of a file, or ends. Time in which the launcher itself
/// was stopped or the machine slept does not count, nor does time in which a
/// rank waits for a disk.
class Watch {
public:
  using Clock = std::chrono::steady_clock;

  Watch(const JobControl &job, int ranks, RankNames names)
      : job(job), names(std::move(names)), reports(ranks), quiet(ranks) {}

  /// Returns for how long no rank has made progress. To be called often.
  Clock::duration look(const std::vector<WatchedRank> &ranks);

  /// Notes how long a step has taken.
  void addStep(double seconds);
  /// The default of how long a job may make no progress: before the first steps
  /// as long as loading may take, then far longer than a usual step.
  Clock::duration limit() const;

  /// Returns the state of all ranks now.
  std::vector<RankSnapshot>
  snapshot(const std::vector<WatchedRank> &ranks) const;

  /// Describes the ranks for which the others wait: "rank 2 (data=1) is
  /// stopped; it is in step 3, .. (process 123)".
  std::string blame(const std::vector<RankSnapshot> &ranks) const;
  /// The table of the ranks, of which one may be known to have failed.
  std::string table(const std::vector<RankSnapshot> &ranks,
                    int failed = -1) const;

private:
  const JobControl &job;
  RankNames names;
  std::vector<RankReport> reports;    // of the last look
  std::vector<Clock::duration> quiet; // how long each report has not changed
  std::deque<double> steps;           // seconds of the latest ones
  size_t running = 0;
  Clock::time_point last = Clock::now();
  Clock::duration still{};
};

} // namespace polyrank::runtime
