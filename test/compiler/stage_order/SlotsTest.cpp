// The number of slots that transfers need.

#include "compiler/stage_order/Slots.h"
#include "compiler/stage_order/Check.h"
#include "compiler/stage_order/Simulate.h"
#include "test/compiler/stage_order/NamedSchedules.h"

#include <gtest/gtest.h>

using namespace polyrank::stage_order;
using namespace polyrank::test;

namespace {

// A value from the last rank to the next chunk of the first waits there until
// the first has finished its group.
TEST(Slots, OneIsEnoughButWhereChunksWaitForGroups) {
  forEachSchedule(6, 24, [&](const NamedSchedule &each) {
    Schedule schedule =
        *makeSchedule(each.text, each.ranks, each.chunks, each.microbatches);
    bool waits = each.chunks > 1 && each.text != "zero-bubble-v" &&
                 each.microbatches > each.ranks &&
                 (each.text == "gpipe" || each.microbatches % each.ranks != 0);
    if (!waits) {
      EXPECT_EQ(getLeastSlots(schedule), 1) << each;
      EXPECT_EQ(getSlots(schedule), 1) << each;
    } else if (each.text == "interleaved") {
      EXPECT_LE(getSlots(schedule), std::max<int64_t>(2, each.ranks - 1))
          << each;
    } else {
      EXPECT_LE(getSlots(schedule), each.microbatches - each.ranks) << each;
    }
  });
}

TEST(Slots, AreTheLeast) {
  forEachSchedule(4, 15, [&](const NamedSchedule &each) {
    Schedule schedule =
        *makeSchedule(each.text, each.ranks, each.chunks, each.microbatches);
    CheckOptions options;
    options.slots = getLeastSlots(schedule);
    EXPECT_TRUE(checkSchedule(schedule, options)) << each;
    Times times;
    times.slots = options.slots;
    EXPECT_TRUE(simulate(schedule, times)) << each;
    if (--options.slots > 0) {
      EXPECT_FALSE(checkSchedule(schedule, options)) << each;
    }
    times.slots = getSlots(schedule);
    int64_t shortest = simulate(schedule)->makespan;
    EXPECT_EQ(simulate(schedule, times)->makespan, shortest) << each;
    if (--times.slots > 0) {
      auto slower = simulate(schedule, times);
      EXPECT_TRUE(!slower || slower->makespan > shortest) << each;
    }
  });
}

// With one slot the last rank could not send its second gradient before the
// first rank, which begins four microbatches earlier, has received the first.
TEST(Slots, ASkipHoldsWhatIsOnItsWay) {
  Schedule schedule = *makeSchedule("1f1b", 4, 1, 8);
  EXPECT_EQ(getLeastSlots(schedule, {{0, 3}}), 2);
  EXPECT_EQ(getSlots(schedule, {{0, 3}}), 2);
}

} // namespace
