// The named schedules.

#include "compiler/stage_order/Check.h"
#include "compiler/stage_order/Generators.h"
#include "compiler/stage_order/Peaks.h"
#include "compiler/stage_order/ScheduleText.h"
#include "test/compiler/stage_order/NamedSchedules.h"

#include <gtest/gtest.h>

using namespace polyrank::stage_order;
using namespace polyrank::test;

namespace {

std::string write(std::string_view text, int64_t ranks, int64_t chunks,
                  int64_t microbatches, std::string_view parts = trainParts) {
  auto schedule = makeSchedule(text, ranks, chunks, microbatches, parts);
  return schedule ? writeSchedule(*schedule) : schedule.error().message;
}

TEST(Schedules, GpipeRunsAllForwardsFirst) {
  EXPECT_EQ(write("gpipe", 2, 1, 3), "stages 0 1\n"
                                     "F0.0 F0.1 F0.2 B0.0 B0.1 B0.2\n"
                                     "F0.0 F0.1 F0.2 B0.0 B0.1 B0.2\n");
}

TEST(Schedules, GpipeWithChunksGoesBreadthFirst) {
  EXPECT_EQ(write("gpipe", 2, 2, 2),
            "stages 0 1 0 1\n"
            "F0.0 F0.1 F1.0 F1.1 B1.0 B1.1 B0.0 B0.1\n"
            "F0.0 F0.1 F1.0 F1.1 B1.0 B1.1 B0.0 B0.1\n");
}

TEST(Schedules, OneForwardOneBackwardBeginsOneMoreThanTheNextRank) {
  EXPECT_EQ(write("1f1b", 3, 1, 4),
            "stages 0 1 2\n"
            "F0.0 F0.1 F0.2 B0.0 F0.3 B0.1 B0.2 B0.3\n"
            "F0.0 F0.1 B0.0 F0.2 B0.1 F0.3 B0.2 B0.3\n"
            "F0.0 B0.0 F0.1 B0.1 F0.2 B0.2 F0.3 B0.3\n");
}

TEST(Schedules, FewerMicrobatchesThanRanksAreAllBegunFirst) {
  EXPECT_EQ(write("1f1b", 4, 1, 2), "stages 0 1 2 3\n"
                                    "F0.0 F0.1 B0.0 B0.1\n"
                                    "F0.0 F0.1 B0.0 B0.1\n"
                                    "F0.0 F0.1 B0.0 B0.1\n"
                                    "F0.0 B0.0 F0.1 B0.1\n");
}

// The order is that of Megatron-LM: groups of two, and two forwards before the
// first pair on the last rank, which is one group of all chunks but one.
TEST(Schedules, InterleavedTakesChunksInTurn) {
  EXPECT_EQ(
      write("interleaved", 2, 2, 4),
      "stages 0 1 0 1\n"
      "F0.0 F0.1 F1.0 F1.1 F0.2 B1.0 F0.3 B1.1 F1.2 B0.0 F1.3 B0.1 B1.2 B1.3 "
      "B0.2 B0.3\n"
      "F0.0 F0.1 F1.0 B1.0 F1.1 B1.1 F0.2 B0.0 F0.3 B0.1 F1.2 B1.2 F1.3 B1.3 "
      "B0.2 B0.3\n");
}

TEST(Schedules, InterleavedWithOneChunkIsOneForwardOneBackward) {
  EXPECT_EQ(write("interleaved", 4, 1, 6), write("1f1b", 4, 1, 6));
}

TEST(Schedules, GroupsHaveAsManyMicrobatchesAsRanksOrMore) {
  using List = std::vector<int64_t>;
  EXPECT_EQ(getGroupSizes(4, 8), (List{4, 4}));
  EXPECT_EQ(getGroupSizes(4, 7), (List{7}));
  EXPECT_EQ(getGroupSizes(4, 9), (List{5, 4}));
  EXPECT_EQ(getGroupSizes(4, 15), (List{5, 5, 5}));
  EXPECT_EQ(getGroupSizes(4, 2), (List{2}));
}

// On rank r, r gradients of weights are deferred.
TEST(Schedules, ZeroBubbleKeepsWeightsForTheEnd) {
  EXPECT_EQ(write("zero-bubble", 3, 1, 3),
            "stages 0 1 2\n"
            "F0.0 F0.1 F0.2 B0.0 W0.0 B0.1 W0.1 B0.2 W0.2\n"
            "F0.0 F0.1 B0.0 F0.2 B0.1 W0.0 B0.2 W0.1 W0.2\n"
            "F0.0 B0.0 F0.1 B0.1 F0.2 B0.2 W0.0 W0.1 W0.2\n");
}

// Figure 1 of Qi et al., 2024: the chunks turn around at the last rank.
TEST(Schedules, ZeroBubbleVHasFirstAndLastStageOnTheFirstRank) {
  EXPECT_EQ(write("zero-bubble-v", 2, 2, 3),
            "stages 0 1 1 0\n"
            "F0.0 F0.1 F0.2 F1.0 B1.0 W1.0 F1.1 B1.1 W1.1 B0.0 W0.0 F1.2 B1.2 "
            "W1.2 B0.1 W0.1 B0.2 W0.2\n"
            "F0.0 F1.0 F0.1 F1.1 B1.0 W1.0 F0.2 B0.0 W0.0 F1.2 B1.1 W1.1 B0.1 "
            "B1.2 B0.2 W0.1 W1.2 W0.2\n");
}

TEST(Schedules, ForwardsAloneHaveTheSameOrder) {
  EXPECT_EQ(write("interleaved", 2, 2, 3, forwardParts),
            "stages 0 1 0 1\n"
            "F0.0 F0.1 F0.2 F1.0 F1.1 F1.2\n"
            "F0.0 F0.1 F0.2 F1.0 F1.1 F1.2\n");
  auto schedule = makeSchedule("zero-bubble", 2, 1, 2, forwardParts);
  ASSERT_TRUE(schedule);
  EXPECT_FALSE(schedule->splitsBackward);
}

TEST(Schedules, AllOfThemPassTheChecker) {
  int64_t checked = 0;
  forEachSchedule(8, 64, [&](const NamedSchedule &each) {
    for (bool trains : {true, false}) {
      auto schedule =
          makeSchedule(each.text, each.ranks, each.chunks, each.microbatches,
                       trains ? trainParts : forwardParts);
      ASSERT_TRUE(schedule) << each;
      CheckOptions options;
      options.trains = trains;
      auto ok = checkSchedule(*schedule, options);
      EXPECT_TRUE(ok) << each << ": " << ok.error().message;
      auto coordinates = getCoordinates(each.text, each.ranks, each.chunks);
      ASSERT_TRUE(coordinates);
      EXPECT_EQ(*coordinates, schedule->coordinates);
      ++checked;
    }
  });
  // Two have four numbers of chunks, three have one.
  EXPECT_EQ(checked, 2 * (2 * 4 + 3) * 8 * 64);
}

// The first rank of 1f1b holds the most: no rank of zero-bubble holds more, nor
// does zero-bubble-v, whose chunks are half as large.
TEST(Schedules, ZeroBubbleHoldsNoMoreThanOneForwardOneBackward) {
  for (int64_t ranks = 1; ranks <= 8; ++ranks)
    for (int64_t microbatches = 2 * ranks; microbatches <= 20; ++microbatches) {
      int64_t held =
          getPeaks(*makeSchedule("1f1b", ranks, 1, microbatches)).ofRanks[0];
      auto split = makeSchedule("zero-bubble", ranks, 1, microbatches);
      auto turning = makeSchedule("zero-bubble-v", ranks, 2, microbatches);
      CheckOptions options;
      options.mostHeld = held;
      EXPECT_TRUE(checkSchedule(*split, options));
      options.mostHeld = 2 * held;
      EXPECT_TRUE(checkSchedule(*turning, options));
    }
}

TEST(Schedules, WhatIsNoneIsRefused) {
  EXPECT_EQ(write("1f1", 2, 1, 2),
            "--schedule 1f1 is none of gpipe, 1f1b, interleaved, zero-bubble, "
            "zero-bubble-v and file:PATH; nearest: '1f1b'");
  EXPECT_EQ(write("1f1b", 2, 2, 2),
            "--schedule 1f1b has 1 chunk on each rank, and --chunks 2 asks for "
            "others; interleaved, gpipe and zero-bubble-v have two");
  EXPECT_EQ(write("zero-bubble", 2, 3, 2),
            "--schedule zero-bubble has 1 chunk on each rank, and --chunks 3 "
            "asks for others; interleaved and gpipe have any number");
  EXPECT_EQ(write("zero-bubble-v", 2, 1, 2),
            "--schedule zero-bubble-v has 2 chunks on each rank, and --chunks "
            "1 asks for others; 1f1b and zero-bubble have one");
  EXPECT_EQ(write("gpipe", 0, 1, 2),
            "--schedule gpipe for 0 ranks: there are 1 to 4096");
  EXPECT_EQ(write("gpipe", 2, 0, 2),
            "--schedule gpipe for 0 chunks: there are 1 to 4096");
  EXPECT_EQ(write("gpipe", 4096, 4096, 2),
            "--schedule gpipe for 16777216 stages: there are 1 to 4096");
  EXPECT_EQ(write("gpipe", 2, 1, 0),
            "--schedule gpipe for 0 microbatches: there are 1 to 1048576");
  EXPECT_EQ(write("gpipe", 4096, 1, 1048576),
            "--schedule gpipe: 4096 stages of 1048576 microbatches are more "
            "than 2796202, what a schedule holds; use fewer microbatches");
  EXPECT_EQ(write("gpipe", 2, 1, 2, "backward"),
            "a schedule of 'backward': there are train and forward");
  EXPECT_EQ(getCoordinates("1f1b", 2, 2).error().message,
            write("1f1b", 2, 2, 2));
  EXPECT_EQ(getCoordinates("1f1", 2, 1).error().message, write("1f1", 2, 1, 2));
}

} // namespace
