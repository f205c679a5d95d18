// A step is complete once all ranks have reported.

#include "runtime/report/RankSteps.h"

#include <gtest/gtest.h>

namespace polyrank::runtime::test {
namespace {

StepReport reportOf(uint64_t step, double loss, double share = 0) {
  StepReport report;
  report.step = step;
  report.communicationShare = share;
  report.metrics = {{"loss", loss}};
  return report;
}

RankStep rankStep(uint64_t step, double seconds, double waiting,
                  uint64_t resident = 0) {
  return {step, seconds, 0, 0, waiting, 0, resident};
}

TEST(RankStep, ComesBackFromItsText) {
  RankStep step{7, 0.5, 0.25, 0.125, 0.0625, 0.03125, uint64_t(5) << 40};
  RankStep back =
      nlohmann::json::parse(nlohmann::json(step).dump()).get<RankStep>();
  EXPECT_EQ(back.step, 7u);
  EXPECT_EQ(back.seconds, 0.5);
  EXPECT_EQ(back.computeSeconds, 0.25);
  EXPECT_EQ(back.communicationSeconds, 0.125);
  EXPECT_EQ(back.waitingSeconds, 0.0625);
  EXPECT_EQ(back.dataSeconds, 0.03125);
  EXPECT_EQ(back.residentBytes, uint64_t(5) << 40);
}

TEST(StepCollector, WaitsForEveryRankAndNamesTheSlowest) {
  StepCollector steps(3, 1, true);
  steps.add(1, rankStep(1, 10, 2, 30));
  EXPECT_TRUE(steps.add(0, reportOf(1, 4)));
  steps.add(0, rankStep(1, 10, 5, 70));
  EXPECT_TRUE(steps.takeWhole().empty());
  // Another rank may be ahead.
  steps.add(1, rankStep(2, 9, 1));
  EXPECT_TRUE(steps.takeWhole().empty());
  steps.add(2, rankStep(1, 11, 4, 20));
  std::vector<StepReport> whole = steps.takeWhole();
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_EQ(whole[0].step, 1u);
  ASSERT_TRUE(whole[0].spread);
  EXPECT_EQ(whole[0].spread->slowest, 1);
  EXPECT_EQ(whole[0].spread->fastest, 0);
  EXPECT_EQ(whole[0].spread->ofSlowest.waitingSeconds, 2);
  EXPECT_EQ(whole[0].spread->ofFastest.waitingSeconds, 5);
  EXPECT_EQ(whole[0].spread->residentBytes, 70u);
  EXPECT_TRUE(steps.takeWhole().empty());
}

TEST(StepCollector, AStepWaitsForSamplesAsLongAsTheRankThatWaitsLongest) {
  StepCollector steps(2, 1, true);
  StepReport first = reportOf(1, 4);
  first.seconds = 1;
  first.dataSeconds = 0.25;
  EXPECT_TRUE(steps.add(0, first));
  steps.add(0, {1, 1, 0, 0, 0, 0.25, 0});
  steps.add(1, {1, 1, 0, 0, 0, 0.5, 0});
  std::vector<StepReport> whole = steps.takeWhole();
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_EQ(whole[0].dataSeconds, 0.5);
  // The other rank's step, and its wait, may have begun earlier.
  first.step = 2;
  EXPECT_TRUE(steps.add(0, first));
  steps.add(0, {2, 1, 0, 0, 0, 0.25, 0});
  steps.add(1, {2, 3, 0, 0, 0, 2, 0});
  whole = steps.takeWhole();
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_EQ(whole[0].dataSeconds, 1);
}

TEST(StepCollector, GivesStepsInOrderAndAtTheEndWhatThereIs) {
  StepCollector steps(2, 1, true);
  for (uint64_t step : {1, 2, 3}) {
    EXPECT_TRUE(steps.add(0, reportOf(step, double(step))));
    steps.add(0, rankStep(step, 1, 0));
  }
  steps.add(1, rankStep(2, 1, 0));
  EXPECT_TRUE(steps.takeWhole().empty()); // the first is not
  steps.add(1, rankStep(1, 1, 0));
  std::vector<StepReport> whole = steps.takeWhole();
  ASSERT_EQ(whole.size(), 2u);
  EXPECT_EQ(whole[1].step, 2u);
  // A step without metrics is not returned.
  steps.add(1, rankStep(4, 1, 0));
  whole = steps.takeRest();
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_EQ(whole[0].step, 3u);
  EXPECT_FALSE(whole[0].spread);
  EXPECT_TRUE(steps.takeRest().empty());
}

TEST(StepCollector, PutsProgramsTogether) {
  StepCollector steps(4, 2, false);
  StepReport other = reportOf(1, 0, 0.75);
  other.metrics = {{"count", 8}};
  other.seconds = 3;
  EXPECT_FALSE(steps.add(2, other));
  EXPECT_TRUE(steps.takeWhole().empty());
  auto step = steps.add(0, reportOf(1, 4, 0.25));
  ASSERT_TRUE(step);
  EXPECT_EQ(step->metrics.size(), 2u);
  EXPECT_EQ(step->seconds, 3);
  EXPECT_EQ(step->communicationShare, 0.25); // rank 0's
  // Times of ranks were not asked for.
  std::vector<StepReport> whole = steps.takeWhole();
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_FALSE(whole[0].spread);
}

} // namespace
} // namespace polyrank::runtime::test
