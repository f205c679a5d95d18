// Notices that a job does not get on.

#pragma once

#include "runtime/launch/RankTable.h"

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace polyrank::runtime {

/// Whom the watch looks at.
struct WatchedRank {
  int pid = -1;
  bool running = false; // not yet reaped
};

/// Looks at where the ranks of a job are. A job gets on as long as any of its
/// ranks does: it starts, comes to another command or meeting, reads or writes
/// a part of a file, or ends. Time in which the launcher itself was stopped or
/// the machine slept does not count, nor does time in which a rank is in the
/// middle of a disk's work.
class Watch {
public:
  using Clock = std::chrono::steady_clock;

  Watch(const shm::Job &job, int ranks, RankNames names)
      : job(job), names(std::move(names)), reports(ranks), quiet(ranks) {}

  /// How long no rank has got on. Call it often.
  Clock::duration look(const std::vector<WatchedRank> &ranks);

  /// Notes how long a step has taken.
  void addStep(double seconds);
  /// How long no rank may get on, unless the user says something else: so much
  /// as loading may take, until there are steps, and then as a step of the
  /// usual length cannot.
  Clock::duration limit() const;

  /// Where the ranks are now.
  std::vector<RankSnapshot>
  snapshot(const std::vector<WatchedRank> &ranks) const;

  /// What can be said of the ranks for which the others wait: "rank 2 (data=1)
  /// is stopped; it is in step 3, .. (process 123)".
  std::string blame(const std::vector<RankSnapshot> &ranks) const;
  /// The table of the ranks, of which one may be known to have failed.
  std::string table(const std::vector<RankSnapshot> &ranks,
                    int failed = -1) const;

private:
  const shm::Job &job;
  RankNames names;
  std::vector<shm::RankReport> reports; // of the last look
  std::vector<Clock::duration> quiet;   // how long each of them was the same
  std::deque<double> steps;             // seconds of the latest ones
  size_t running = 0;
  Clock::time_point last = Clock::now();
  Clock::duration still{};
};

} // namespace polyrank::runtime
