// Human-readable descriptions of where the ranks of a job are, and which ranks
// wait for which.

#pragma once

#include "runtime/job/Job.h"

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace polyrank::runtime {

/// The names of ranks and of their commands, for messages.
struct RankNames {
  std::function<std::string(int rank)> rank;
  std::function<std::string(int rank, uint32_t command)> command;
};

/// The state of one rank at one time.
struct RankSnapshot {
  int pid = -1;         // -1: of a guest that has not come
  bool running = false; // not yet reaped
  char state = '?';     // processState
  RankReport report;
  RankWait wait;
  std::chrono::steady_clock::duration still{}; // since its last progress

  bool isStopped() const { return state == 'T' || state == 't'; }
  /// True if the process has ended, even if the rank has not reported its end.
  bool isGone() const { return !running || state == 'Z' || state == 'X'; }
};

/// Describes the position of a rank and what it waits for, but not for how
/// long: "in step 3, segment 'update', loss (command 7)", or the phase before
/// the first step.
std::string describeRank(int rank, const std::vector<RankSnapshot> &ranks,
                         const RankNames &names);

/// Returns the ranks for which the others wait, as far as that is visible:
/// those that are stopped or gone, else those that wait for nobody. None if all
/// wait.
std::vector<int> findCulprits(const std::vector<RankSnapshot> &ranks);

/// Returns a table with a line for each rank, the culprits marked. If there are
/// many ranks it has the culprits, and one of each kind of the others with the
/// number of ranks like it.
std::string rankTable(const std::vector<RankSnapshot> &ranks,
                      const std::vector<int> &culprits, const RankNames &names);

} // namespace polyrank::runtime
