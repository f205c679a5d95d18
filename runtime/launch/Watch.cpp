// Detects progress by comparing the ranks' reports with the previous ones.

#include "runtime/launch/Watch.h"

#include "support/Processes.h"

#include <algorithm>

namespace polyrank::runtime {

using namespace std::chrono_literals;

namespace {
constexpr auto whileLoading = 300s, atLeast = 60s;
constexpr double stepsOfTime = 20;
constexpr size_t stepsKept = 101; // for their median
} // namespace

char WatchedRank::state() const { return told ? *told : processState(pid); }

Watch::Clock::duration Watch::look(const std::vector<WatchedRank> &ranks) {
  auto now = Clock::now();
  // A longer pause means that this process itself did not run, so it does not
  // count.
  auto passed = std::min<Clock::duration>(now - last, 1s);
  last = now;
  bool moved = false;
  size_t left = 0;
  for (size_t r = 0; r < ranks.size(); ++r) {
    RankReport report = job.report(static_cast<int>(r));
    bool same = report == reports[r];
    quiet[r] = same ? quiet[r] + passed : Clock::duration();
    moved |= !same;
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
    if (rank.running && rank.state() == 'D')
      return still;
  still += passed;
  return still;
}

void Watch::addStep(double seconds) {
  steps.push_back(seconds);
  if (steps.size() > stepsKept)
    steps.pop_front();
}

Watch::Clock::duration Watch::limit() const {
  if (steps.empty())
    return whileLoading;
  std::vector<double> sorted(steps.begin(), steps.end());
  auto middle = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return std::max<Clock::duration>(
      atLeast, std::chrono::duration_cast<Clock::duration>(
                   std::chrono::duration<double>(stepsOfTime * *middle)));
}

std::vector<RankSnapshot>
Watch::snapshot(const std::vector<WatchedRank> &ranks) const {
  std::vector<RankSnapshot> all;
  for (size_t r = 0; r < ranks.size(); ++r) {
    int rank = static_cast<int>(r);
    RankSnapshot each{ranks[r].pid,     ranks[r].running, '?',
                      job.report(rank), job.waitOf(rank), quiet[r]};
    if (each.running)
      each.state = ranks[r].state();
    if (each.report != reports[r])
      each.still = {};
    all.push_back(std::move(each));
  }
  return all;
}

std::string Watch::table(const std::vector<RankSnapshot> &ranks,
                         int failed) const {
  std::vector<int> culprits = findCulprits(ranks);
  // The reported failure may be a consequence of another rank's death.
  bool hasDead = !culprits.empty() && ranks[culprits.front()].isGone();
  if (failed >= 0 && !hasDead)
    culprits = {failed};
  return rankTable(ranks, culprits, names);
}

std::string Watch::blame(const std::vector<RankSnapshot> &ranks) const {
  constexpr size_t most = 4;
  std::vector<int> culprits = findCulprits(ranks);
  std::string text;
  for (size_t c = 0; c < std::min(culprits.size(), most); ++c) {
    int rank = culprits[c];
    text += (c == 0 ? "" : "; ") + names.rank(rank) + " " +
            describeRank(rank, ranks, names);
    if (ranks[rank].pid >= 0)
      text += " (process " + std::to_string(ranks[rank].pid) + ")";
  }
  if (culprits.size() > most)
    text += "; and others";
  return culprits.empty() ? "all ranks wait" : text;
}

} // namespace polyrank::runtime
