// Which jobs are started again, and after which pause.

#include "runtime/launch/Restarts.h"

#include <gtest/gtest.h>

namespace polyrank::runtime {
namespace {

const Error died{"rank 1 was killed", Error::Fault::Rank};

/// Returns an attempt that does `steps` steps and ends after `step`.
Attempt upTo(uint64_t step, uint64_t steps = 10) {
  return {steps, step, true, false};
}

TEST(Restarts, PausesGrowToAMinute) {
  Restarts restarts(9);
  std::vector<int64_t> pauses;
  for (uint64_t n = 1; n <= 9; ++n) {
    auto pause = restarts.after(died, upTo(10 * n));
    ASSERT_TRUE(pause) << pause.error().message;
    pauses.push_back(pause->count());
  }
  EXPECT_EQ(pauses, (std::vector<int64_t>{1, 2, 4, 8, 16, 32, 60, 60, 60}));
  EXPECT_EQ(restarts.count(), 9u);
  auto last = restarts.after(died, upTo(100));
  ASSERT_FALSE(last);
  EXPECT_EQ(last.error().fault, Error::Fault::Rank);
  EXPECT_EQ(last.error().message,
            "rank 1 was killed; it was started again 9 times (--restarts), and "
            "fails still");
}

TEST(Restarts, WithoutAnyTheErrorIsTheRanksOwn) {
  auto none = Restarts(0).after(died, upTo(3));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message, died.message);
}

TEST(Restarts, OnlyAFailedRankAndAHangAreTriedAgain) {
  using Fault = Error::Fault;
  for (Fault fault :
       {Fault::Input, Fault::Preempted, Fault::Disk, Fault::NotFinite}) {
    auto none = Restarts(5).after({"it says why", fault}, upTo(3));
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().message, "it says why");
    EXPECT_EQ(none.error().fault, fault);
  }
  EXPECT_TRUE(Restarts(5).after({"", Fault::Hang}, upTo(3)));
}

/// Returns an attempt in which another process, or the machine, killed a rank.
Attempt killed(uint64_t step, uint64_t steps, bool inStep = true) {
  return {steps, step, inStep, true};
}

void expectGivesUp(const Result<std::chrono::seconds> &after,
                   const std::string &why) {
  ASSERT_FALSE(after);
  EXPECT_EQ(after.error().message,
            died.message + "; " + why + ", so it is not started once more");
}

TEST(Restarts, ThreeAttemptsInARowWithoutAStepAreEnough) {
  for (bool fromOutside : {false, true}) {
    Attempt loading{0, 7, false, fromOutside};
    Restarts restarts(50);
    EXPECT_TRUE(restarts.after(died, loading)); // it may have been chance
    EXPECT_TRUE(restarts.after(died, loading));
    EXPECT_TRUE(restarts.after(died, upTo(9, 2)));
    EXPECT_TRUE(restarts.after(died, loading));
    auto pause = restarts.after(died, loading);
    ASSERT_TRUE(pause);
    EXPECT_EQ(pause->count(), 16);
    expectGivesUp(restarts.after(died, loading),
                  "3 attempts in a row have come no step further");
  }
}

TEST(Restarts, WhatRanksMakeFailInTheSameStepTwiceIsNotTriedAgain) {
  Restarts restarts(5);
  EXPECT_TRUE(restarts.after(died, upTo(120, 120)));
  expectGivesUp(restarts.after(died, upTo(120, 20)),
                "it failed in the same place before, after step 120");
  // A failure in another step is another fault, even if it is earlier.
  Restarts others(5);
  EXPECT_TRUE(others.after(died, upTo(120, 120)));
  EXPECT_TRUE(others.after(died, upTo(110, 10)));
  EXPECT_TRUE(others.after(died, upTo(120, 20)));
  // An attempt in between that another process ended says nothing about the
  // step, nor does one that did not reach it.
  Restarts broken(9);
  EXPECT_TRUE(broken.after(died, upTo(120, 120)));
  EXPECT_TRUE(broken.after(died, killed(110, 10)));
  EXPECT_TRUE(broken.after(died, {0, 120, false, false}));
  expectGivesUp(broken.after(died, upTo(120, 20)),
                "it failed in the same place before, after step 120");
}

TEST(Restarts, WhatOthersEndInTheSameStepIsTriedAgainTwice) {
  Restarts restarts(9);
  EXPECT_TRUE(restarts.after(died, killed(120, 120)));
  EXPECT_TRUE(restarts.after(died, killed(120, 20)));
  EXPECT_TRUE(restarts.after(died, killed(121, 21)));
  EXPECT_TRUE(restarts.after(died, killed(121, 1)));
  expectGivesUp(restarts.after(died, killed(121, 1)),
                "it failed in the same place before, after step 121");
}

} // namespace
} // namespace polyrank::runtime
