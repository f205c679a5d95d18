// How the launcher assembles steps and evaluations from reports of ranks.

#include "runtime/session/EvaluationResults.h"
#include "runtime/session/StepResults.h"
#include "test/runtime/PipelineBuilder.h"
#include "test/runtime/PlanBuilder.h"

#include <cmath>
#include <gtest/gtest.h>

namespace polyrank::runtime::test {
namespace {

/// Results of a plan with this many ranks.
struct Results {
  explicit Results(const plan::PlanT &plan) : loaded(load(plan)) {}

  SessionOptions options;
  LoadedPlan loaded;
  Mesh mesh{*loaded.plan};
  uint64_t origin = 0;
  StepResults steps{{options, *loaded.plan, mesh, nullptr, origin}};
};

StepMessage step(uint64_t number, double loss) {
  StepReport report;
  report.step = number;
  report.metrics = {{"loss", loss}};
  return {report, {}};
}

TEST(StepResults, AStepOfOneProgramIsWholeAtOnce) {
  Results run(linearPlan({.data = 2, .weights = {}}));
  auto whole = run.steps.add(0, step(1, 2.5));
  ASSERT_TRUE(whole);
  EXPECT_EQ(*whole->metric("loss"), 2.5);
  ASSERT_EQ(run.steps.takeComplete().size(), 1u);
  EXPECT_TRUE(run.steps.takeComplete().empty());
}

TEST(StepResults, ANanOfOneProgramIsLeftToItsRank) {
  Results run(linearPlan({}));
  run.steps.add(0, step(1, NAN));
  EXPECT_FALSE(run.steps.failure());
}

TEST(StepResults, ANanOfSeveralProgramsIsSeenOnceTheStepIsWhole) {
  Results run(pipelinePlan({}));
  EXPECT_FALSE(run.steps.add(0, step(1, NAN)));
  EXPECT_FALSE(run.steps.failure());
  StepMessage second = step(1, 0);
  second.report.metrics = {{"targets", 4}};
  EXPECT_TRUE(run.steps.add(1, second));
  ASSERT_TRUE(run.steps.failure());
  EXPECT_EQ(run.steps.failure()->message.find("step 1: the loss is NaN"), 0u);
  EXPECT_EQ(run.steps.failure()->fault, Error::Fault::NotFinite);
}

TEST(StepResults, ANanThatTheUserAllowsIsNoFailure) {
  Results run(pipelinePlan({}));
  run.options.allowNan = true;
  run.steps.add(0, step(1, NAN));
  EXPECT_TRUE(run.steps.add(1, step(1, NAN)));
  EXPECT_FALSE(run.steps.failure());
}

TEST(StepResults, WaitsForTheTimesOfAllRanksIfTheyAreMeasured) {
  SessionOptions options;
  options.log = "log.jsonl";
  LoadedPlan loaded = load(linearPlan({.data = 2, .weights = {}}));
  Mesh mesh(*loaded.plan);
  uint64_t origin = 0;
  StepResults steps({options, *loaded.plan, mesh, nullptr, origin});
  StepMessage first = step(1, 2);
  first.measured = RankStep{1, 2, 0, 0, 1, 0};
  EXPECT_TRUE(steps.add(0, first));
  EXPECT_TRUE(steps.takeComplete().empty());
  steps.add(1, RankStep{1, 2, 0, 0, 0, 0});
  std::vector<StepReport> complete = steps.takeComplete();
  ASSERT_EQ(complete.size(), 1u);
  ASSERT_TRUE(complete[0].spread);
  EXPECT_EQ(complete[0].spread->slowest, 1);
}

TEST(StepResults, RanksAreStuckOnceAllSaySoAndTheFirstParameterIsNamed) {
  Results run(linearPlan({.data = 2, .weights = {}}));
  run.steps.add(1, StuckMessage{4, 0});
  EXPECT_FALSE(run.steps.failure());
  run.steps.add(0, StuckMessage{4, {}});
  ASSERT_TRUE(run.steps.failure());
  const Error &error = *run.steps.failure();
  EXPECT_EQ(error.fault, Error::Fault::NotFinite);
  EXPECT_EQ(error.message.find("step 4: the gradient of 'linear.weight' on "
                               "rank 1 (data=1"),
            0u)
      << error.message;
}

TEST(StepResults, RanksThatFindNoParameterBlameTheNorm) {
  Results run(linearPlan({}));
  run.steps.add(0, StuckMessage{2, {}});
  ASSERT_TRUE(run.steps.failure());
  EXPECT_EQ(run.steps.failure()->message.find(
                "step 2: the norm of all gradients is not finite"),
            0u)
      << run.steps.failure()->message;
}

TEST(StepResults, AFailedAttemptIsForgotten) {
  Results run(linearPlan({.data = 2, .weights = {}}));
  run.steps.add(0, step(1, 2));
  run.steps.add(0, StuckMessage{1, 0});
  run.steps.forget();
  EXPECT_TRUE(run.steps.takeRest().empty());
  run.steps.add(1, StuckMessage{1, 0});
  EXPECT_FALSE(run.steps.failure());
}

EvaluationReport evaluation(uint64_t number, const char *metric, double value) {
  EvaluationReport report;
  report.step = number, report.samples = 10;
  report.metrics = {{metric, value}};
  return report;
}

TEST(EvaluationResults, IsWholeOnceAllProgramsHaveReportedIt) {
  EvaluationResults results(2, 0);
  EXPECT_FALSE(results.add(evaluation(4, "eval_accuracy", 0.5)));
  // Another program may be one evaluation ahead.
  EXPECT_FALSE(results.add(evaluation(8, "eval_accuracy", 0.75)));
  auto whole = results.add(evaluation(4, "eval_loss", 2));
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->step, 4u);
  EXPECT_EQ(whole->metrics.size(), 2u);
  EXPECT_EQ(results.state().bestStep, 4u);
  EXPECT_EQ(results.state().bestLoss, 2);
}

TEST(EvaluationResults, CountsThoseWithoutASmallerLoss) {
  EvaluationResults results(1, 2);
  results.begin({4, 4, 0, 1.0});
  EXPECT_TRUE(results.add(evaluation(8, "eval_loss", 2)));
  EXPECT_EQ(results.state().without, 1u);
  EXPECT_TRUE(results.add(evaluation(12, "eval_accuracy", 1))); // has no loss
  EXPECT_EQ(results.state().step, 12u);
  EXPECT_EQ(results.state().without, 2u);
  EXPECT_EQ(results.state().bestStep, 4u);
}

TEST(EvaluationResults, ABeginDiscardsReportsOfTheAttemptBefore) {
  EvaluationResults results(2, 0);
  EXPECT_FALSE(results.add(evaluation(4, "eval_loss", 2)));
  results.begin({});
  EXPECT_FALSE(results.add(evaluation(4, "eval_loss", 3)));
  auto whole = results.add(evaluation(4, "eval_accuracy", 1));
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->metrics[0].second, 3);
}

} // namespace
} // namespace polyrank::runtime::test
