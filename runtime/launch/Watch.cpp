// Compares what the ranks publish with what they published before.

#include "runtime/launch/Watch.h"

#include <algorithm>

namespace polyrank::runtime {

using namespace std::chrono_literals;

Watch::Clock::duration Watch::look(const std::vector<WatchedRank> &ranks) {
  auto now = Clock::now();
  // Of a longer pause than between two looks this process has seen nothing.
  auto passed = std::min<Clock::duration>(now - last, 1s);
  last = now;
  bool moved = false;
  size_t left = 0;
  for (size_t r = 0; r < ranks.size(); ++r) {
    shm::RankReport report = job.report(static_cast<int>(r));
    moved |= report != reports[r];
    reports[r] = report;
    left += ranks[r].running;
  }
  moved |= left != running;
  running = left;
  if (moved) {
    still = {};
    return still;
  }
  for (const WatchedRank &rank : ranks)
    if (rank.running && shm::processState(rank.pid) == 'D')
      return still;
  still += passed;
  return still;
}

std::pair<int, std::string>
Watch::blame(const std::vector<WatchedRank> &ranks) const {
  int first = -1, all = 0;
  std::string text;
  auto add = [&](size_t r, const std::string &what) {
    constexpr int most = 4;
    if (first < 0)
      first = static_cast<int>(r);
    if (++all <= most)
      text += (all > 1 ? "; " : "") + names.rank(static_cast<int>(r)) + " " +
              what + " (process " + std::to_string(ranks[r].pid) + ")";
    else if (all == most + 1)
      text += "; and others";
  };
  for (size_t r = 0; r < ranks.size(); ++r) {
    char state = ranks[r].running ? shm::processState(ranks[r].pid) : '?';
    if (state == 'T' || state == 't')
      add(r, state == 'T' ? "is stopped" : "is stopped by a debugger");
  }
  // A rank that is stopped explains what the others do.
  if (first >= 0)
    return {first, text};
  for (size_t r = 0; r < ranks.size(); ++r) {
    const shm::RankReport &report = reports[r];
    if (!ranks[r].running || report.waiting)
      continue;
    if (report.phase == shm::RankPhase::Starting ||
        report.phase == shm::RankPhase::Attaching)
      add(r, "has not joined the job");
    else if (report.step == 0)
      add(r, "has not begun its first step");
    else
      add(r, "is in step " + std::to_string(report.step) + ", " +
                 names.command(static_cast<int>(r), report.command));
  }
  if (first < 0)
    text = "all ranks wait";
  return {first, text};
}

} // namespace polyrank::runtime
