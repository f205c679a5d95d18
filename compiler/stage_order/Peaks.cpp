// Counts held microbatches: one more after each forward, one less after the
// last part of each backward.

#include "compiler/stage_order/Peaks.h"

#include <algorithm>

using namespace polyrank::stage_order;

namespace {

/// A count and its maximum so far.
struct Held {
  int64_t now = 0, most = 0;

  void add() { most = std::max(most, ++now); }
};

} // namespace

Peaks polyrank::stage_order::getPeaks(const Schedule &schedule) {
  Peaks peaks;
  std::vector<std::vector<int64_t>> stages = getStagesOfRanks(schedule);
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const std::vector<Entry> &entries = schedule.ranks[rank];
    bool trains =
        std::any_of(entries.begin(), entries.end(), [](const Entry &entry) {
          return entry.part != Part::Forward;
        });
    Part last = !trains                   ? Part::Forward
                : schedule.splitsBackward ? Part::BackwardWeight
                                          : Part::Backward;
    Part input = schedule.splitsBackward ? Part::BackwardInput : last;
    Held ofRank, untilInput;
    std::vector<Held> ofChunks(stages[rank].size());
    for (const Entry &entry : entries) {
      if (entry.part == Part::Forward) {
        ofRank.add();
        untilInput.add();
        ofChunks[entry.chunk].add();
      }
      if (entry.part == last) {
        --ofRank.now;
        --ofChunks[entry.chunk].now;
      }
      if (entry.part == input)
        --untilInput.now;
    }
    peaks.ofRanks.push_back(ofRank.most);
    peaks.untilInput.push_back(untilInput.most);
    peaks.ofChunks.emplace_back();
    for (const Held &held : ofChunks)
      peaks.ofChunks.back().push_back(held.most);
  }
  return peaks;
}
