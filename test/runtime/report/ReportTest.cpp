// The counts in a plan's report, and the totals over a run's steps.

#include "runtime/plan/PlanReport.h"
#include "runtime/report/Progress.h"
#include "support/ByteText.h"
#include "test/runtime/PlanBuilder.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <nlohmann/json.hpp>

namespace polyrank::runtime::test {
namespace {

PlanReport report(const plan::PlanT &plan) { return reportOf(load(plan)); }

plan::PlanT planOf4Ranks() {
  LinearModel model;
  model.data = 2, model.tensor = 2, model.microbatches = 3, model.batch = 8;
  return linearPlan(model);
}

TEST(PlanReport, CountsCommandsOncePerMicrobatchThatRunsThem) {
  PlanReport counted = report(planOf4Ranks());
  // The first microbatch has one launch more; the update has two.
  EXPECT_EQ(counted.launches, 3u + 2 * 2 + 2);
  EXPECT_EQ(counted.allCalls().calls, 2u * 3);
  EXPECT_EQ(counted.allCalls().flops, 3u * 2 * (2 * 4 * 2 * 3));
  EXPECT_EQ(counted.copies, 0u);
  EXPECT_EQ(counted.kernels[0].symbol, "difference");
  EXPECT_EQ(counted.kernels[0].launches, 3u);
  EXPECT_EQ(counted.kernels[2].launches, 1u); // zero
  EXPECT_EQ(counted.ranks, 4);
  EXPECT_EQ(counted.parameterElements, 12);
  EXPECT_EQ(counted.parameterBytes, 24u); // of a half
  EXPECT_EQ(counted.held.size(), 1u);
}

TEST(PlanReport, HasRoomForTheCallThatTakesMostForEachThread) {
  plan::PlanT plan = planOf4Ranks();
  plan.threads = 3;
  plan.programs[0]->segments[0]->commands[1]->body.AsCall()->library_bytes = 64;
  PlanReport counted = report(plan);
  EXPECT_EQ(counted.libraryBytes(), 3u * 64);
}

TEST(PlanReport, CountsTheCallsOfEachKind) {
  nlohmann::ordered_json json = toJson(report(planOf4Ranks()));
  EXPECT_EQ(json["commands_per_step"]["gemm"], 2 * 3);
  EXPECT_EQ(json["commands_per_step"]["gemm_flops"], 3 * 2 * (2 * 4 * 2 * 3));
  EXPECT_EQ(json["programs"][0]["gemm"], 2 * 3);
}

TEST(PlanReport, CountsWhatEachRankSendsLargestFirst) {
  plan::PlanT plan = planOf4Ranks();
  PlanReport counted = report(plan);
  ASSERT_EQ(counted.communication.size(), 2u);
  const CommunicationLine &gradient = counted.communication[0],
                          &loss = counted.communication[1];
  EXPECT_EQ(gradient.axes, "data");
  EXPECT_EQ(gradient.groupSize, 2);
  EXPECT_EQ(gradient.count, 1u);
  EXPECT_EQ(gradient.payload, 24u);
  EXPECT_EQ(gradient.sent, 2u * 24 / 2);
  EXPECT_EQ(loss.axes, "data,tensor");
  EXPECT_EQ(loss.sent, 2u * 4 * 3 / 4);
  ASSERT_EQ(counted.reasons.size(), 2u);
  EXPECT_EQ(counted.reasons[1].value, "loss");

  // The payload is the larger of input and output; for a halo only the borders.
  using plan::CollectiveKind;
  struct Row {
    CollectiveKind kind;
    uint64_t input, output, sent;
  };
  for (auto [kind, input, output, sent] :
       {Row{CollectiveKind::AllGather, 24, 48, 24},
        {CollectiveKind::ReduceScatter, 48, 24, 24},
        {CollectiveKind::Permute, 24, 24, 24},
        {CollectiveKind::Broadcast, 24, 24, 12},
        {CollectiveKind::Halo, 24, 36, 12},
        {CollectiveKind::HaloAdd, 36, 24, 12}}) {
    plan::PlanT changed = planOf4Ranks();
    changed.programs[0]->shared_size = 256;
    plan::CollectiveT &collective = *changed.programs[0]
                                         ->segments[updateSegment]
                                         ->commands[0]
                                         ->body.AsCollective();
    collective.kind = kind;
    if (kind != CollectiveKind::ReduceScatter &&
        kind != CollectiveKind::HaloAdd)
      collective.reduction = plan::Reduction::None;
    if (kind == CollectiveKind::Permute)
      collective.permutation = {1, 0};
    plan::TransferT &transfer = *collective.transfers[0];
    transfer.inner = 6;
    if (kind == CollectiveKind::Halo || kind == CollectiveKind::HaloAdd)
      transfer.low = 1, transfer.high = 2;
    *transfer.input =
        plan::BufferRef(128, input, 0, 0, 0, 0, 0, plan::Region::Shared);
    *transfer.output =
        plan::BufferRef(192, output, 0, 0, 0, 0, 0, plan::Region::Shared);
    EXPECT_EQ(report(changed).communication[0].sent, sent)
        << plan::EnumNameCollectiveKind(kind);
  }
}

TEST(PlanReport, CountsWhatIsStartedOnceAndNotWhereItIsWaitedFor) {
  plan::PlanT plan = planOf4Ranks();
  uint64_t launches = report(plan).launches;
  startEarly(plan, updateSegment, 0, 3, 7);
  PlanReport counted = report(plan);
  ASSERT_EQ(counted.communication.size(), 2u);
  EXPECT_EQ(counted.communication[0].count, 1u);
  EXPECT_EQ(counted.communication[0].started, 1u);
  EXPECT_EQ(counted.communication[0].sent, 2u * 24 / 2);
  EXPECT_EQ(counted.communication[1].started, 0u);
  EXPECT_EQ(counted.reasons.size(), 2u);
  EXPECT_EQ(counted.launches, launches);
  EXPECT_EQ(toJson(counted)["communication"][0]["started"], 1);
}

TEST(BytesText, HasThreeDigitsOrSo) {
  EXPECT_EQ(bytesText(1023), "1023 B");
  EXPECT_EQ(bytesText(1024), "1.0 KiB");
  EXPECT_EQ(bytesText(150 << 10), "150 KiB");
  EXPECT_EQ(bytesText(uint64_t(3) << 39), "1.5 TiB");
}

TEST(StepReport, ComesThroughTheRanksPipeWithWhatIsNotFinite) {
  StepReport step;
  step.step = 7, step.seconds = 0.5, step.communicationShare = 0.25;
  double infinity = std::numeric_limits<double>::infinity();
  step.metrics = {{"loss", 0.1}, {"norm", -infinity}, {"nan", NAN}};
  step.learningRates = {{"lr", 1e-3}, {"lr(x2)", infinity}};
  StepReport back =
      nlohmann::json::parse(nlohmann::json(step).dump()).get<StepReport>();
  EXPECT_EQ(back.step, 7u);
  EXPECT_EQ(back.seconds, 0.5);
  EXPECT_EQ(back.communicationShare, 0.25);
  ASSERT_EQ(back.metrics.size(), 3u);
  EXPECT_EQ(back.metrics[0], step.metrics[0]);
  EXPECT_EQ(back.metrics[1], step.metrics[1]);
  EXPECT_TRUE(std::isnan(back.metrics[2].second));
  EXPECT_EQ(back.learningRates, step.learningRates);
}

TEST(Progress, MeansOfLossesAreOverTargetsAndOfOthersOverSteps) {
  PlanReport plan;
  ProgressOptions quiet;
  quiet.quiet = true;
  auto progress = Progress::open(plan, quiet);
  ASSERT_TRUE(progress);
  auto step = [&](double loss, double count, double norm, double seconds) {
    StepReport report;
    report.step = (*progress)->stepsDone() + 1;
    report.seconds = seconds;
    report.metrics = {{"loss", loss}, {"count", count}, {"grad_norm", norm}};
    (*progress)->step(report);
  };
  step(2, 10, 1, 9);
  EXPECT_EQ((*progress)->secondsPerStep(), 9);
  step(4, 30, 3, 1);
  step(4, 60, 5, 3);
  auto means = (*progress)->means();
  EXPECT_EQ(means[0].second, (2 * 10 + 4 * 30 + 4 * 60) / 100.0);
  EXPECT_EQ(means[1], std::pair(std::string("grad_norm"), 3.0));
  EXPECT_EQ(means.size(), 2u);
  // How many targets there were is a sum.
  EXPECT_EQ((*progress)->totals(),
            (std::vector{std::pair(std::string("count"), 100.0)}));
  EXPECT_EQ((*progress)->seconds(), 13);
  EXPECT_EQ((*progress)->secondsPerStep(), 2); // the first touches the memory
  EXPECT_EQ((*progress)->last()[0].second, 4);
}

TEST(Progress, SamplesThatStandSeveralTimesInABatchCountOnce) {
  PlanReport plan;
  plan.samplesPerStep = 4;
  ProgressOptions quiet;
  quiet.quiet = true;
  auto progress = Progress::open(plan, quiet);
  ASSERT_TRUE(progress);
  auto step = [&](double loss, double count, double norm, double share) {
    StepReport report;
    report.step = (*progress)->stepsDone() + 1;
    report.metrics = {{"loss", loss}, {"count", count}, {"mse", norm}};
    report.share = share;
    report = nlohmann::json(report).get<StepReport>();
    EXPECT_EQ(report.share, share);
    (*progress)->step(report);
  };
  step(2, 8, 1, 1);
  step(4, 4, 3, 0.5);
  auto means = (*progress)->means();
  EXPECT_EQ(means[0].second, (2 * 8 + 4 * 2) / 10.0);
  EXPECT_EQ(means[1].second, (1 * 4 + 3 * 2) / 6.0);
  EXPECT_EQ((*progress)->totals()[0].second, 10);
  EXPECT_EQ((*progress)->last()[1].second, 2);
  EXPECT_EQ((*progress)->samples(), 6);
}

TEST(Progress, EachTermOfALossIsOverItsOwnTargets) {
  PlanReport plan;
  ProgressOptions quiet;
  quiet.quiet = true;
  auto progress = Progress::open(plan, quiet);
  ASSERT_TRUE(progress);
  auto step = [&](double loss, double a, double count) {
    StepReport report;
    report.step = (*progress)->stepsDone() + 1;
    report.metrics = {{"loss", loss}, {"a", a}, {"a.count", count}};
    EXPECT_EQ(report.hasTargets(), count != 0);
    (*progress)->step(report);
  };
  step(2, 1, 10);
  step(NAN, NAN, 0);
  step(4, 5, 30);
  auto means = (*progress)->means();
  EXPECT_EQ(means[0].second, 3);
  EXPECT_EQ(means[1].second, (1 * 10 + 5 * 30) / 40.0);
  EXPECT_FALSE((*progress)->meanLossIsNan());
}

TEST(Progress, APerplexityIsThatOfAllTargets) {
  PlanReport plan;
  plan.geometricMetrics = {"p"};
  ProgressOptions quiet;
  quiet.quiet = true;
  auto progress = Progress::open(plan, quiet);
  ASSERT_TRUE(progress);
  for (auto [mean, count] : {std::pair(1.0, 10), {3.0, 30}, {NAN, 0}}) {
    StepReport report;
    report.step = (*progress)->stepsDone() + 1;
    report.metrics = {{"p", std::exp(mean)}, {"p.count", count}};
    (*progress)->step(report);
  }
  EXPECT_NEAR((*progress)->means()[0].second, std::exp(100 / 40.0), 1e-12);
}

TEST(StepReport, AMetricWithoutTargetsIsNoLossWithoutThem) {
  StepReport report;
  report.metrics = {{"loss", NAN}, {"count", 3}, {"a", NAN}, {"a.count", 0}};
  EXPECT_EQ(report.withoutTargets(), "a");
  EXPECT_TRUE(report.hasTargets());
  EXPECT_TRUE(report.lossIsNan());
}

TEST(StepReport, WhatASkippedStepComputedIsNoError) {
  StepReport report;
  report.metrics = {{"loss", NAN}, {"count", 3}, {"skipped", 0}};
  EXPECT_FALSE(report.isSkipped());
  EXPECT_TRUE(report.lossIsNan());
  report.metrics.back().second = 1;
  EXPECT_TRUE(report.isSkipped());
  EXPECT_FALSE(report.isStuck());
  EXPECT_FALSE(report.lossIsNan());
  report.metrics.back().second = 2;
  EXPECT_TRUE(report.isSkipped());
  EXPECT_TRUE(report.isStuck());
}

TEST(RunReport, ARanksUseComesThroughItsPipe) {
  RankUse use{1, 2, 3, 4, 5, 6, 7, 8};
  RankUse back =
      nlohmann::json::parse(nlohmann::json(use).dump()).get<RankUse>();
  EXPECT_EQ(back.peakResident, 1u);
  EXPECT_EQ(back.peakOwn, 2u);
  EXPECT_EQ(back.computeSeconds, 3);
  EXPECT_EQ(back.communicationSeconds, 4);
  EXPECT_EQ(back.startingSeconds, 5);
  EXPECT_EQ(back.waitingSeconds, 6);
  EXPECT_EQ(back.sentBytes, 7u);
  EXPECT_EQ(back.dataSeconds, 8);
}

} // namespace
} // namespace polyrank::runtime::test
