// Where the ranks of a job are, for people: who is at what, who waits for whom.

#pragma once

#include "runtime/comm/shm/ShmJob.h"

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace polyrank::runtime {

/// How ranks and their commands are called.
struct RankNames {
  std::function<std::string(int rank)> rank;
  std::function<std::string(int rank, uint32_t command)> command;
};

/// One rank at one time.
struct RankSnapshot {
  int pid = -1;
  bool running = false; // not yet reaped
  char state = '?';     // shm::processState
  shm::RankReport report;
  shm::RankWait wait;
  std::chrono::steady_clock::duration still{}; // since it last got on

  bool isStopped() const { return state == 'T' || state == 't'; }
  /// It has left no word, but no process either.
  bool isGone() const { return !running || state == 'Z' || state == 'X'; }
};

/// "in step 3, segment 'update', loss (command 7)", or what it is before, and
/// what it waits for: all but how long.
std::string describeRank(int rank, const std::vector<RankSnapshot> &ranks,
                         const RankNames &names);

/// The ranks for which the others wait, as far as that can be seen: those that
/// are stopped or gone, else those that wait for nobody. None where all wait.
std::vector<int> findCulprits(const std::vector<RankSnapshot> &ranks);

/// A line for each rank, the culprits marked; of many ranks the culprits, one
/// of each sort of the others, and how many are like it.
std::string rankTable(const std::vector<RankSnapshot> &ranks,
                      const std::vector<int> &culprits, const RankNames &names);

} // namespace polyrank::runtime
