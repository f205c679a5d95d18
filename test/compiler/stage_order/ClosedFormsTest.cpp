// Closed forms compared with the simulator.

#include "compiler/stage_order/ClosedForms.h"
#include "compiler/stage_order/Simulate.h"
#include "test/compiler/stage_order/NamedSchedules.h"

#include <gtest/gtest.h>

using namespace polyrank::stage_order;
using namespace polyrank::test;

namespace {

TEST(ClosedForms, AreWhatIsSimulated) {
  int64_t compared = 0;
  forEachSchedule(8, 64, [&](const NamedSchedule &each) {
    auto form =
        getClosedForm(each.text, each.ranks, each.chunks, each.microbatches);
    auto schedule =
        makeSchedule(each.text, each.ranks, each.chunks, each.microbatches);
    ASSERT_TRUE(form && schedule) << each;
    auto simulation = simulate(*schedule);
    ASSERT_TRUE(simulation) << each;
    EXPECT_EQ(form->makespan, simulation->makespan) << each;
    EXPECT_EQ(form->period, simulation->period) << each;
    EXPECT_EQ(form->held, simulation->peaks.ofRanks) << each;
    for (int64_t work : simulation->work)
      EXPECT_EQ(form->bubble, simulation->makespan - work) << each;
    ++compared;
  });
  EXPECT_EQ(compared, (2 * 4 + 3) * 8 * 64);
}

// The bound is reached, except with so few microbatches that chunks wait for
// each other.
TEST(ClosedForms, ReachTheLowerBound) {
  forEachSchedule(8, 64, [&](const NamedSchedule &each) {
    auto simulation = simulate(
        *makeSchedule(each.text, each.ranks, each.chunks, each.microbatches));
    EXPECT_GE(simulation->makespan, simulation->lowerBound) << each;
    if (each.chunks == 1 || each.microbatches >= 2 * each.ranks - 1) {
      EXPECT_EQ(simulation->makespan, simulation->lowerBound) << each;
    }
  });
}

// Each of V chunks is 1/V of a stage, so times are compared as multiples.
TEST(ClosedForms, BubblesAreNotAboveThoseOfOneForwardOneBackward) {
  forEachSchedule(8, 64, [&](const NamedSchedule &each) {
    if (each.text == "gpipe" || each.text == "1f1b")
      return;
    auto form =
        getClosedForm(each.text, each.ranks, each.chunks, each.microbatches);
    auto plain = getClosedForm("1f1b", each.ranks, 1, each.microbatches);
    EXPECT_LE(form->bubble, each.chunks * plain->bubble) << each;
  });
}

// The formulas of the papers, for enough microbatches to fill the pipeline.
TEST(ClosedForms, AreThePapers) {
  for (int64_t p = 2; p <= 8; ++p) {
    EXPECT_EQ(getClosedForm("1f1b", p, 1, 16)->bubble, 3 * (p - 1));
    EXPECT_EQ(getClosedForm("zero-bubble", p, 1, 16)->bubble, p - 1);
    EXPECT_EQ(getClosedForm("zero-bubble-v", p, 2, 16)->bubble, p - 1);
    EXPECT_EQ(getClosedForm("zero-bubble-v", p, 2, 16)->period, 6 * 16);
    for (int64_t v = 2; v <= 4; ++v)
      EXPECT_EQ(getClosedForm("interleaved", p, v, 4 * p)->bubble, 3 * (p - 1));
    // p (1 + (p - 1) / (p v)) microbatches of a whole rank.
    EXPECT_EQ(getClosedForm("interleaved", p, 2, 4 * p)->held[0],
              2 * p + p - 1);
  }
}

TEST(ClosedForms, FilesHaveNone) {
  EXPECT_FALSE(getClosedForm("file:x", 2, 1, 2));
  EXPECT_FALSE(getClosedForm("1f1b", 2, 2, 2));
  EXPECT_FALSE(getClosedForm("1f1b", 2, 1, 0));
}

} // namespace
