// Finds the least number of slots by bisection. More slots never hurt, since
// every wait is then for an earlier entry.

#include "compiler/stage_order/Slots.h"

#include "compiler/stage_order/Simulate.h"
#include "runtime/progress/CheckPrograms.h"

#include <algorithm>

using namespace polyrank;
using namespace polyrank::stage_order;

namespace {

/// Finds the least number from 1 to `most` that is enough; `most` is.
template <typename IsEnough>
int64_t findLeast(int64_t most, IsEnough isEnough) {
  int64_t least = 1, enough = 1;
  // Usually the result is small.
  while (enough < most && !isEnough(enough)) {
    least = enough + 1;
    enough = std::min(2 * enough, most);
  }
  while (least < enough) {
    int64_t middle = least + (enough - least) / 2;
    if (isEnough(middle))
      enough = middle;
    else
      least = middle + 1;
  }
  return least;
}

} // namespace

int64_t
polyrank::stage_order::getLeastSlots(const Schedule &schedule,
                                     const std::vector<StagePair> &skips) {
  std::vector<StagePair> transfers = getTransfers(schedule, skips);
  return findLeast(schedule.microbatches, [&](int64_t slots) {
    return !progress::checkPrograms(
                makePrograms(schedule, slots, transfers).programs)
                .fault;
  });
}

int64_t polyrank::stage_order::getSlots(const Schedule &schedule,
                                        const std::vector<StagePair> &skips) {
  Times times;
  for (auto [from, to] : skips)
    times.transfers.push_back({from, to});
  auto getMakespan = [&](int64_t slots) {
    times.slots = slots;
    Result<Simulation> simulation = simulate(schedule, times);
    return simulation ? simulation->makespan : -1;
  };
  int64_t shortest = getMakespan(schedule.microbatches);
  return findLeast(schedule.microbatches, [&](int64_t slots) {
    return getMakespan(slots) == shortest;
  });
}
