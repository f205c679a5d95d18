// Notices that a job does not get on.

#pragma once

#include "runtime/comm/shm/ShmJob.h"

#include <chrono>
#include <functional>
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
  struct Names {
    std::function<std::string(int rank)> rank;
    std::function<std::string(int rank, uint32_t command)> command;
  };

  Watch(const shm::Job &job, int ranks, Names names)
      : job(job), names(std::move(names)), reports(ranks) {}

  /// How long no rank has got on. Call it often.
  Clock::duration look(const std::vector<WatchedRank> &ranks);

  /// The first of the ranks for which the others wait, and what can be said of
  /// all those: "rank 2 (data=1) is stopped (process 123)".
  std::pair<int, std::string>
  blame(const std::vector<WatchedRank> &ranks) const;

private:
  const shm::Job &job;
  Names names;
  std::vector<shm::RankReport> reports; // of the last look
  size_t running = 0;
  Clock::time_point last = Clock::now();
  Clock::duration still{};
};

} // namespace polyrank::runtime
