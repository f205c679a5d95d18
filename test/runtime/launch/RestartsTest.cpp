// Whether a job is started again, and after which pause.

#include "runtime/launch/Restarts.h"

#include <gtest/gtest.h>

namespace polyrank::runtime {
namespace {

const Error died{"rank 1 was killed", Error::Fault::Rank};

/// Attempts that do `steps` steps each, every one from where the last was.
Attempt upTo(uint64_t step, uint64_t steps = 10) { return {steps, step}; }

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
  for (Fault fault : {Fault::Input, Fault::Preempted, Fault::Disk,
                      Fault::NotFinite}) {
    auto none = Restarts(5).after({"it says why", fault}, upTo(3));
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().message, "it says why");
    EXPECT_EQ(none.error().fault, fault);
  }
  EXPECT_TRUE(Restarts(5).after({"", Fault::Hang}, upTo(3)));
}

TEST(Restarts, WhatComesNoStepFurtherIsNotTriedAgain) {
  Restarts restarts(5);
  EXPECT_TRUE(restarts.after(died, upTo(0, 0))); // it may have been chance
  auto again = restarts.after(died, upTo(0, 0));
  ASSERT_FALSE(again);
  EXPECT_NE(again.error().message.find("came no step further"),
            std::string::npos)
      << again.error().message;
}

TEST(Restarts, WhatFailsInTheSameStepTwiceIsNotTriedAgain) {
  Restarts restarts(5);
  EXPECT_TRUE(restarts.after(died, upTo(120, 120)));
  auto again = restarts.after(died, upTo(120, 20));
  ASSERT_FALSE(again);
  EXPECT_NE(again.error().message.find("after step 120"), std::string::npos)
      << again.error().message;
  // Elsewhere is another fault, be it before.
  Restarts others(5);
  EXPECT_TRUE(others.after(died, upTo(120, 120)));
  EXPECT_TRUE(others.after(died, upTo(110, 10)));
  EXPECT_TRUE(others.after(died, upTo(120, 20)));
}

} // namespace
} // namespace polyrank::runtime
