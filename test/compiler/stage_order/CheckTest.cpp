// Each condition on a schedule, tested by a schedule that violates only it.

#include "compiler/stage_order/Check.h"
#include "compiler/stage_order/ScheduleText.h"

#include <gtest/gtest.h>

using namespace polyrank;
using namespace polyrank::stage_order;

namespace {

std::string getError(const Schedule &schedule,
                     const CheckOptions &options = {}) {
  auto ok = checkSchedule(schedule, options);
  return ok ? "" : ok.error().message;
}
std::string getError(std::string_view text, const CheckOptions &options = {}) {
  auto schedule = readSchedule(text, "s.txt");
  return schedule ? getError(*schedule, options) : schedule.error().message;
}

// Condition 1.
TEST(CheckSchedule, SizesFit) {
  Schedule good = *makeSchedule("gpipe", 2, 1, 1);
  EXPECT_EQ(getError(good), "");
  Schedule bad = good;
  bad.microbatches = 0;
  EXPECT_EQ(getError(bad),
            "a schedule of 0 microbatches: there are 1 to 1048576");
  bad.microbatches = mostMicrobatches + 1;
  EXPECT_EQ(getError(bad),
            "a schedule of 1048577 microbatches: there are 1 to 1048576");
  bad = good;
  bad.coordinates = {0, 2};
  EXPECT_EQ(getError(bad),
            "stage 1 is on rank 2 of the pipe axis, which has 2");
  bad.coordinates = {0, -1};
  EXPECT_EQ(getError(bad),
            "stage 1 is on rank -1 of the pipe axis, which has 2");
  bad.coordinates = {0, 0};
  EXPECT_EQ(getError(bad), "rank 1 has no stage");
  EXPECT_EQ(getError(Schedule()), "a schedule without ranks");
  // No memory is used for missing entries.
  std::string text;
  for (int i = 0; i < 16; ++i)
    text += "F1048575\n";
  EXPECT_EQ(getError(text), "16 entries for 16 stages and 1048576 "
                            "microbatches: most are missing");
}

TEST(CheckSchedule, SkipsGoForward) {
  Schedule good = *makeSchedule("gpipe", 3, 1, 1);
  CheckOptions options;
  options.skips = {{0, 2}};
  EXPECT_EQ(getError(good, options), "");
  options.skips = {{2, 1}};
  EXPECT_EQ(getError(good, options),
            "a transfer from stage 2 to 1: it goes forward, and there are 3 "
            "stages");
  options.skips = {{1, 3}};
  EXPECT_EQ(getError(good, options),
            "a transfer from stage 1 to 3: it goes forward, and there are 3 "
            "stages");
  options.skips = {{-1, 1}};
  EXPECT_EQ(getError(good, options),
            "a transfer from stage -1 to 1: it goes forward, and there are 3 "
            "stages");
}

// Condition 2.
TEST(CheckSchedule, EntriesAreOfWhatThereIs) {
  Schedule good = *makeSchedule("gpipe", 1, 1, 1), bad = good;
  bad.ranks[0][1].chunk = 1;
  EXPECT_EQ(getError(bad), "rank 0, entry 1 (B1.0) is of chunk 1, and the rank "
                           "has 1 stages, from 0");
  bad.ranks[0][1].chunk = -1;
  EXPECT_EQ(getError(bad), "rank 0, entry 1 (B-1.0) is of chunk -1, and the "
                           "rank has 1 stages, from 0");
  bad = good;
  bad.ranks[0][1].microbatch = 1;
  EXPECT_EQ(getError(bad), "rank 0, entry 1 (B0.1) is of microbatch 1, and "
                           "there are 1, from 0");
  bad.ranks[0][1].microbatch = -1;
  EXPECT_EQ(getError(bad), "rank 0, entry 1 (B0.-1) is of microbatch -1, and "
                           "there are 1, from 0");
}

TEST(CheckSchedule, BackwardsAreWholeOrInTwoParts) {
  Schedule bad = *makeSchedule("gpipe", 1, 1, 1);
  bad.splitsBackward = true;
  EXPECT_EQ(getError(bad),
            "rank 0, entry 1 (B0.0) is a whole backward, and backwards of this "
            "schedule are two parts, B and W");
  bad = *makeSchedule("zero-bubble", 1, 1, 1);
  bad.splitsBackward = false;
  EXPECT_EQ(getError(bad), "rank 0, entry 1 (B0.0) is a part of a backward, "
                           "and backwards of this schedule are whole");
  CheckOptions forwards;
  forwards.trains = false;
  EXPECT_EQ(getError("F0 B0\n", forwards),
            "rank 0, entry 1 (B0.0) is of a backward, and nothing but forwards "
            "is asked for");
  EXPECT_EQ(getError("F0\n", forwards), "");
}

// Condition 3.
TEST(CheckSchedule, NothingIsRepeated) {
  EXPECT_EQ(getError("F0 B0 F0\n"), "rank 0, entry 2 (F0.0) repeats entry 0");
  EXPECT_EQ(getError("F0 B0 W0 W0\n"),
            "rank 0, entry 3 (W0.0) repeats entry 2");
}

TEST(CheckSchedule, NothingIsForgotten) {
  EXPECT_EQ(getError("F0 F1 B0 B1\nF0 B0 B1\n"),
            "rank 1 never runs F0.1, a forward");
  EXPECT_EQ(getError("F0 F1 B0\nF0 B0 F1 B1\n"),
            "rank 0 never runs B0.1, a backward");
  EXPECT_EQ(getError("F0 F1 B0 B1 W1\n"),
            "rank 0 never runs W0.0, gradients of weights");
}

// Condition 4.
TEST(CheckSchedule, MicrobatchesOfOnePartGoUp) {
  const std::string why = ", and microbatches of one part go up, so that sums "
                          "do not depend on the schedule";
  EXPECT_EQ(getError("F0 F1 B1 B0\n"),
            "rank 0, entry 2 (B0.1) is in front of entry 3 (B0.0)" + why);
  EXPECT_EQ(getError("F1 F0 B0 B1\n"),
            "rank 0, entry 0 (F0.1) is in front of entry 1 (F0.0)" + why);
  EXPECT_EQ(getError("F0 F1 B0 B1 W1 W0\n"),
            "rank 0, entry 4 (W0.1) is in front of entry 5 (W0.0)" + why);
}

// Condition 5.
TEST(CheckSchedule, APartComesBehindWhatItNeeds) {
  EXPECT_EQ(getError("B0 F0\n"), "rank 0, entry 0 (B0.0) is in front of entry "
                                 "1 (F0.0), which it needs");
  EXPECT_EQ(getError("F0 W0 B0\n"), "rank 0, entry 1 (W0.0) is in front of "
                                    "entry 2 (B0.0), which it needs");
}

TEST(CheckSchedule, StagesOfOneRankComeInTurn) {
  const std::string why = ", of another chunk of the rank, which it needs";
  EXPECT_EQ(getError("F1.0 F0.0 B1.0 B0.0\n"),
            "rank 0, entry 0 (F1.0) is in front of entry 1 (F0.0)" + why);
  EXPECT_EQ(getError("F0.0 F1.0 B0.0 B1.0\n"),
            "rank 0, entry 2 (B0.0) is in front of entry 3 (B1.0)" + why);
  // Nobody waits for the gradients of weights.
  EXPECT_EQ(getError("F0.0 F1.0 B1.0 B0.0 W0.0 W1.0\n"), "");
}

// Condition 6. Rank 0 waits for the gradient of microbatch 0 before it runs F1,
// which rank 1 needs first.
TEST(CheckSchedule, RanksThatWaitInACircleAreRefused) {
  EXPECT_EQ(getError("F0 B0 F1 B1\nF0 F1 B0 B1\n"),
            "ranks wait for each other without end: rank 0, entry 1 (B0.0): "
            "waits until rank 1 has sent what goes from stage 1 to 0 of "
            "microbatch 0; rank 1, entry 1 (F0.1): waits until rank 0 has sent "
            "what goes from stage 0 to 1 of microbatch 1");
}

// Only ranks 1 and 2 are shown, of four that make no progress.
TEST(CheckSchedule, TheCounterexampleHasTheFewestRanks) {
  std::string error = getError("F0 F1 F2 B0 B1 B2\n"
                               "F0 B0 F1 B1 F2 B2\n"
                               "F0 F1 B0 F2 B1 B2\n"
                               "F0 B0 F1 B1 F2 B2\n");
  EXPECT_EQ(error,
            "ranks wait for each other without end: rank 1, entry 1 (B0.0): "
            "waits until rank 2 has sent what goes from stage 2 to 1 of "
            "microbatch 0; rank 2, entry 1 (F0.1): waits until rank 1 has sent "
            "what goes from stage 1 to 2 of microbatch 1");
}

// Chunk 0's values wait on rank 1 until rank 0 has finished its own.
TEST(CheckSchedule, SlotsLimitWhatWaits) {
  Schedule gpipe = *makeSchedule("gpipe", 2, 2, 8);
  CheckOptions options;
  EXPECT_EQ(getError(gpipe, options), "");
  options.slots = 2;
  EXPECT_EQ(
      getError(gpipe, options),
      "ranks wait for each other without end: rank 0, entry 5 (F0.5): waits "
      "until rank 1 has received what goes from stage 0 to 1 of microbatch 3, "
      "whose slot it needs; rank 1, entry 2 (F0.2): waits until rank 0 has "
      "received what goes from stage 1 to 2 of microbatch 0, whose slot it "
      "needs; a transfer has 2 slots, and with 4 this ends");
  options.slots = 4;
  EXPECT_EQ(getError(gpipe, options), "");
}

TEST(CheckSchedule, OfALongCircleTheFirstRanksAreShown) {
  CheckOptions options;
  options.slots = 1;
  std::string error = getError(*makeSchedule("gpipe", 9, 2, 64), options);
  EXPECT_NE(error.find("; rank 7, entry "), std::string::npos) << error;
  EXPECT_EQ(error.find("; rank 8, entry "), std::string::npos) << error;
  EXPECT_NE(error.find("; and so on, 9 ranks in all; a transfer has 1 slot, "
                       "and with "),
            std::string::npos)
      << error;
}

TEST(CheckSchedule, SkipsAreTransfersToo) {
  // Rank 3 sends the second gradient of the skip before rank 0, which still
  // runs forwards, has received the first.
  Schedule schedule = *makeSchedule("1f1b", 4, 1, 4);
  CheckOptions options;
  options.slots = 1;
  EXPECT_EQ(getError(schedule, options), "");
  options.skips = {{0, 3}};
  EXPECT_EQ(
      getError(schedule, options),
      "ranks wait for each other without end: rank 0, entry 3 (F0.3): waits "
      "until rank 3 has received what goes from stage 0 to 3 of microbatch 2, "
      "whose slot it needs; rank 3, entry 3 (B0.1): waits until rank 0 has "
      "received what goes from stage 3 to 0 of microbatch 0, whose slot it "
      "needs; a transfer has 1 slot, and with 2 this ends");
  options.slots = 2;
  EXPECT_EQ(getError(schedule, options), "");
}

// Condition 7.
TEST(CheckSchedule, RanksHoldNoMoreThanIsAllowed) {
  CheckOptions options;
  options.mostHeld = 2;
  Schedule schedule = *makeSchedule("1f1b", 3, 1, 6);
  EXPECT_EQ(getError(schedule, options),
            "rank 0, entry 2 (F0.2) is microbatch number 3 that the rank "
            "holds, and 2 are allowed; it would be 3 at the most");
  options.mostHeld = 3;
  EXPECT_EQ(getError(schedule, options), "");
  // The weight part of the backward reads what is held.
  options.mostHeld = 1;
  EXPECT_EQ(getError("F0 B0 F1 B1 W0 W1\n", options),
            "rank 0, entry 2 (F0.1) is microbatch number 2 that the rank "
            "holds, and 1 are allowed; it would be 2 at the most");
  EXPECT_EQ(getError("F0 B0 W0 F1 B1 W1\n", options), "");
  CheckOptions forwards;
  forwards.trains = false;
  forwards.mostHeld = 0;
  EXPECT_EQ(getError("F0 F1\n", forwards),
            "rank 0, entry 0 (F0.0) is microbatch number 1 that the rank "
            "holds, and 0 are allowed; it would be 1 at the most");
  forwards.mostHeld = 1;
  EXPECT_EQ(getError("F0 F1\n", forwards), "");
}

} // namespace
