// Lower bounds from the work of a rank and from what must come before and after
// it.

#include "compiler/stage_order/LowerBound.h"

#include <algorithm>

using namespace polyrank::stage_order;

namespace {

/// A whole backward counts entirely as the input gradient, and the weight
/// gradients take no time.
struct Bound {
  Bound(const Schedule &schedule, const Times &times)
      : schedule(schedule), times(times) {
    size_t numStages = schedule.coordinates.size();
    trains = false;
    for (const std::vector<Entry> &entries : schedule.ranks)
      trains |=
          std::any_of(entries.begin(), entries.end(), [](const Entry &entry) {
            return entry.part != Part::Forward;
          });
    for (size_t stage = 0; stage < numStages; ++stage) {
      StageTimes of = times.stages[times.stages.size() == 1 ? 0 : stage];
      if (!schedule.splitsBackward) {
        of.backwardInput += of.backwardWeight;
        of.backwardWeight = 0;
      }
      if (!trains)
        of.backwardInput = of.backwardWeight = 0;
      stages.push_back(of);
    }
    forwardHops.assign(numStages, 0);
    backwardHops.assign(numStages, 0);
    for (const TransferTimes &each : times.transfers)
      if (each.to == each.from + 1 &&
          schedule.coordinates[each.from] != schedule.coordinates[each.to]) {
        forwardHops[each.from] = each.forward;
        backwardHops[each.from] = trains ? each.backward : 0;
      }
  }

  int64_t getUpdate(int64_t rank) const {
    return times.updates.empty() || times.waitsForAll ? 0 : times.updates[rank];
  }

  /// The time from the start until a microbatch can reach the stage.
  int64_t getFill(int64_t stage) const {
    int64_t time = 0;
    for (int64_t i = 0; i < stage; ++i)
      time += stages[i].forward + forwardHops[i];
    return time;
  }

  /// The time from the end of the stage's last input gradient to the end of
  /// everything that depends on it, updates included.
  int64_t getDrain(int64_t stage) const {
    int64_t time = 0, most = 0;
    for (int64_t i = stage; i >= 0; --i) {
      if (i < stage)
        time += backwardHops[i] + stages[i].backwardInput;
      most = std::max(most, time + stages[i].backwardWeight +
                                getUpdate(schedule.coordinates[i]));
    }
    return most;
  }

  int64_t get() const {
    int64_t most = 0;
    std::vector<std::vector<int64_t>> ofRanks = getStagesOfRanks(schedule);
    for (size_t rank = 0; rank < ofRanks.size(); ++rank) {
      int64_t awaited = 0, weights = 0;
      for (int64_t stage : ofRanks[rank]) {
        awaited += schedule.microbatches *
                   (stages[stage].forward + stages[stage].backwardInput);
        weights += schedule.microbatches * stages[stage].backwardWeight;
      }
      int64_t first = ofRanks[rank].front();
      most = std::max(most, getFill(first) + awaited +
                                std::max(weights + getUpdate(rank),
                                         trains ? getDrain(first) : 0));
    }
    int64_t last = stages.size() - 1;
    most = std::max(
        most,
        getFill(last) + stages[last].forward + stages[last].backwardInput +
            (trains ? getDrain(last) : getUpdate(schedule.coordinates[last])));
    if (times.waitsForAll && !times.updates.empty())
      most += *std::max_element(times.updates.begin(), times.updates.end());
    return most;
  }

  const Schedule &schedule;
  const Times &times;
  bool trains;
  std::vector<StageTimes> stages;
  std::vector<int64_t> forwardHops, backwardHops; // from a stage to the next
};

} // namespace

int64_t polyrank::stage_order::getLowerBound(const Schedule &schedule,
                                             const Times &times) {
  return Bound(schedule, times).get();
}
