// The times of entries, in examples that are small enough to follow.

#include "compiler/stage_order/Simulate.h"
#include "compiler/stage_order/ScheduleText.h"

#include <gtest/gtest.h>

using namespace polyrank;
using namespace polyrank::stage_order;

namespace {

Schedule read(std::string_view text) {
  auto schedule = readSchedule(text, "s.txt");
  EXPECT_TRUE(schedule) << schedule.error().message;
  return *schedule;
}
Simulation run(const Schedule &schedule, const Times &times = {}) {
  auto simulation = simulate(schedule, times);
  EXPECT_TRUE(simulation) << simulation.error().message;
  return *simulation;
}
/// `0-1 1-2`: the entries of a rank.
std::string show(const std::vector<Interval> &times) {
  std::string text;
  for (const Interval &each : times)
    text += (text.empty() ? "" : " ") + std::to_string(each.start) + "-" +
            std::to_string(each.end);
  return text;
}
std::string getError(const Schedule &schedule, const Times &times) {
  auto simulation = simulate(schedule, times);
  return simulation ? "" : simulation.error().message;
}

TEST(Simulate, ARankWaitsForWhatItNeeds) {
  Simulation simulation = run(*makeSchedule("1f1b", 2, 1, 2));
  EXPECT_EQ(show(simulation.entries[0]), "0-1 1-2 4-6 7-9");
  EXPECT_EQ(show(simulation.entries[1]), "1-2 2-4 4-5 5-7");
  EXPECT_EQ(simulation.makespan, 9);
  EXPECT_EQ(simulation.lowerBound, 9);
  EXPECT_EQ(simulation.work, (std::vector<int64_t>{6, 6}));
  EXPECT_DOUBLE_EQ(simulation.bubbles[0], 1. / 3);
}

TEST(Simulate, StagesHaveTimesOfTheirOwn) {
  Times times;
  times.stages = {{2, 3, 4}, {5, 6, 7}};
  Simulation simulation = run(*makeSchedule("zero-bubble", 2, 1, 1), times);
  EXPECT_EQ(show(simulation.entries[0]), "0-2 13-16 16-20");
  EXPECT_EQ(show(simulation.entries[1]), "2-7 7-13 13-20");
  EXPECT_EQ(simulation.lowerBound, 20);
  EXPECT_EQ(simulation.period, 20);
}

TEST(Simulate, TransfersRunBesideTheSender) {
  Times times;
  times.transfers = {{0, 1, 3, 5}};
  Simulation simulation = run(*makeSchedule("gpipe", 2, 1, 2), times);
  // The second one waits until the link is free.
  EXPECT_EQ(show(simulation.entries[0]), "0-1 1-2 15-17 20-22");
  EXPECT_EQ(show(simulation.entries[1]), "4-5 7-8 8-10 10-12");
  ASSERT_EQ(simulation.transfers.size(), 4u);
  EXPECT_EQ(simulation.transfers[1].time, (Interval{4, 7}));
  EXPECT_EQ(simulation.transfers[1].microbatch, 1);
  EXPECT_TRUE(simulation.transfers[2].isBackward);
  EXPECT_EQ(simulation.transfers[2].from, 1);
  EXPECT_EQ(simulation.transfers[2].time, (Interval{10, 15}));
}

TEST(Simulate, StagesOfOneRankNeedNoTransfer) {
  Times times;
  times.transfers = {{0, 1, 100, 100}};
  Simulation simulation = run(read("F0.0 F1.0 B1.0 B0.0\n"), times);
  EXPECT_EQ(simulation.makespan, 6);
  EXPECT_TRUE(simulation.transfers.empty());
}

TEST(Simulate, SkipsAreWaitedFor) {
  Times times;
  times.transfers = {{0, 2, 10, 20}};
  Simulation simulation = run(*makeSchedule("1f1b", 3, 1, 1), times);
  EXPECT_EQ(show(simulation.entries[2]), "11-12 12-14");
  EXPECT_EQ(show(simulation.entries[0]), "0-1 34-36");
}

// Rank 0 sends its second value only once the first has been received, although
// it could continue.
TEST(Simulate, ASenderStandsWithoutASlot) {
  Schedule schedule = read("F0 F1 F2 B0 B1 B2\nF0 F1 F2 B0 B1 B2\n");
  Times times;
  times.stages = {{1, 1, 1}, {10, 1, 1}};
  EXPECT_EQ(show(run(schedule, times).entries[0]),
            "0-1 1-2 2-3 33-35 35-37 37-39");
  times.slots = 1;
  EXPECT_EQ(show(run(schedule, times).entries[0]),
            "0-1 1-2 2-3 33-35 35-37 37-39");
  EXPECT_EQ(show(run(read("F0 F1 F2 F3 B0 B1 B2 B3\nF0 F1 F2 F3 B0 B1 B2 B3\n"),
                     times)
                     .entries[0]),
            "0-1 1-2 2-3 11-12 43-45 45-47 47-49 49-51");
}

TEST(Simulate, UpdatesFollowTheLastEntry) {
  Times times;
  times.updates = {5, 7};
  Schedule schedule = *makeSchedule("1f1b", 2, 1, 2);
  Simulation simulation = run(schedule, times);
  EXPECT_EQ(show(simulation.updates), "9-14 7-14");
  EXPECT_EQ(simulation.makespan, 14);
  EXPECT_EQ(simulation.lowerBound, 14);
  // Rank 1 begins one later than rank 0.
  EXPECT_EQ(simulation.period, 14);
  EXPECT_EQ(simulation.work, (std::vector<int64_t>{11, 13}));
}

TEST(Simulate, UpdatesWaitForAllGradientsWithClipping) {
  Times times;
  times.updates = {5, 7};
  times.waitsForAll = true;
  Simulation simulation = run(*makeSchedule("1f1b", 2, 1, 2), times);
  EXPECT_EQ(show(simulation.updates), "9-14 9-16");
  EXPECT_EQ(simulation.makespan, 16);
  EXPECT_EQ(simulation.lowerBound, 16);
  EXPECT_EQ(simulation.period, 16);
}

// Without clipping no rank of zero-bubble-v waits; with clipping all wait for
// the last one.
TEST(Simulate, ClippingCostsZeroBubbleItsFill) {
  Times times;
  Schedule schedule = *makeSchedule("zero-bubble-v", 4, 2, 8);
  EXPECT_EQ(run(schedule, times).period, 48);
  times.waitsForAll = true;
  EXPECT_EQ(run(schedule, times).period, 51);
}

TEST(Simulate, PeaksAreCountedByRankAndChunk) {
  Simulation simulation = run(*makeSchedule("zero-bubble", 3, 1, 6));
  EXPECT_EQ(simulation.peaks.ofRanks, (std::vector<int64_t>{3, 3, 3}));
  EXPECT_EQ(simulation.peaks.untilInput, (std::vector<int64_t>{3, 2, 1}));
  simulation = run(*makeSchedule("gpipe", 1, 2, 3));
  EXPECT_EQ(simulation.peaks.ofRanks, (std::vector<int64_t>{6}));
  EXPECT_EQ(simulation.peaks.ofChunks,
            (std::vector<std::vector<int64_t>>{{3, 3}}));
  simulation = run(*makeSchedule("gpipe", 1, 1, 3, forwardParts));
  EXPECT_EQ(simulation.peaks.ofRanks, (std::vector<int64_t>{1}));
}

TEST(Simulate, ForwardsAloneEndWithTheLast) {
  Times times;
  times.transfers = {{0, 1, 2, 100}};
  Simulation simulation =
      run(*makeSchedule("gpipe", 2, 1, 3, forwardParts), times);
  EXPECT_EQ(show(simulation.entries[1]), "3-4 5-6 7-8");
  EXPECT_EQ(simulation.lowerBound, 6);
}

TEST(Simulate, NoTimeIsTimeToo) {
  Times times;
  times.stages = {{0, 0, 0}};
  Simulation simulation = run(*makeSchedule("1f1b", 2, 1, 2), times);
  EXPECT_EQ(simulation.makespan, 0);
  EXPECT_EQ(simulation.bubbles, (std::vector<double>{0, 0}));
}

TEST(Simulate, WaitingWithoutEndIsAnError) {
  EXPECT_EQ(getError(read("F0 B0 F1 B1\nF0 F1 B0 B1\n"), {}),
            "rank 0 waits without end at entry 1 (B0.0): checkSchedule says "
            "for whom");
  EXPECT_EQ(getError(read("B0 F0\n"), {}),
            "rank 0 waits without end at entry 0 (B0.0): checkSchedule says "
            "for whom");
  EXPECT_EQ(getError(read("F0 W0 B0\n"), {}),
            "rank 0 waits without end at entry 1 (W0.0): checkSchedule says "
            "for whom");
  EXPECT_EQ(getError(read("F1.0 F0.0 B1.0 B0.0\n"), {}),
            "rank 0 waits without end at entry 0 (F1.0): checkSchedule says "
            "for whom");
  EXPECT_EQ(getError(read("F0.0 F1.0 B0.0 B1.0\n"), {}),
            "rank 0 waits without end at entry 2 (B0.0): checkSchedule says "
            "for whom");
}

TEST(Simulate, TimesThatDoNotFitAreRefused) {
  Schedule schedule = *makeSchedule("1f1b", 3, 1, 2);
  Times times;
  times.stages.resize(2);
  EXPECT_EQ(getError(schedule, times),
            "times of 2 stages, and the schedule has 3");
  times = {};
  times.updates = {1};
  EXPECT_EQ(getError(schedule, times),
            "times of 1 updates, and the schedule has 3 ranks");
  for (int i = 0; i < 7; ++i) {
    times = {};
    times.transfers = {{0, 1}};
    times.updates = {0, 0, 0};
    int64_t *fields[] = {&times.stages[0].forward,
                         &times.stages[0].backwardInput,
                         &times.stages[0].backwardWeight,
                         &times.transfers[0].forward,
                         &times.transfers[0].backward,
                         &times.updates[1],
                         &times.slots};
    *fields[i] = -1;
    EXPECT_EQ(getError(schedule, times),
              "a time or a number of slots is negative");
  }
  times = {};
  times.transfers = {{1, 1}};
  EXPECT_EQ(getError(schedule, times),
            "a transfer from stage 1 to 1: it goes forward, and there are 3 "
            "stages");
  Schedule large = read("F1048575\n");
  large.coordinates.assign(16, 0);
  EXPECT_EQ(getError(large, {}),
            "1 entries for 16 stages and 1048576 microbatches: most are "
            "missing");
  EXPECT_EQ(getError(read("F104828\n"), {}),
            "1 entries for 1 stages and 104829 microbatches: most are missing");
  Schedule bad = schedule;
  bad.ranks[1][0].microbatch = 2;
  EXPECT_EQ(getError(bad, {}), "rank 1 has no F0.2");
}

} // namespace
