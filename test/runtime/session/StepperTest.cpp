// A rank's steps, their reports, and what is not finite in them.

#include "runtime/session/Stepper.h"

#include "test/runtime/session/SessionRank.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace polyrank::runtime::test {
namespace {

TEST(Stepper, ReportsTheStepThatItHasRun) {
  SessionRank rank;
  rank.openSamples(1);
  Stepper stepper(*rank, 0);
  for (uint64_t step : {0, 1}) {
    Result<void> ran = stepper.run(step);
    ASSERT_TRUE(ran) << ran.error().message;
    std::vector<RankMessage> messages = rank.messages();
    ASSERT_EQ(messages.size(), 1u);
    const auto &message = std::get<StepMessage>(messages[0]);
    EXPECT_EQ(message.report.step, step + 1);
    EXPECT_TRUE(std::isfinite(*message.report.metric("loss")));
    EXPECT_GT(message.report.seconds, 0);
    EXPECT_FALSE(message.measured);
  }
  EXPECT_FALSE(stepper.badSamples());
}

TEST(Stepper, ReportsItsTimesIfTheyAreMeasured) {
  SessionOptions options;
  options.log = "log.jsonl";
  SessionRank rank(options);
  rank.openSamples(1);
  Stepper stepper(*rank, 0);
  ASSERT_TRUE(stepper.run(0));
  std::vector<RankMessage> messages = rank.messages();
  ASSERT_EQ(messages.size(), 1u);
  const auto &measured = std::get<StepMessage>(messages[0]).measured;
  ASSERT_TRUE(measured);
  EXPECT_EQ(measured->step, 1u);
  EXPECT_GT(measured->seconds, 0);
}

TEST(Stepper, FailsIfTheLossIsNan) {
  SessionRank rank;
  rank.openSamples(std::numeric_limits<float>::quiet_NaN());
  Stepper stepper(*rank, 0);
  Result<void> ran = stepper.run(0);
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().fault, Error::Fault::NotFinite);
  EXPECT_EQ(ran.error().message.find("step 1: the loss is NaN, and so is what "
                                     "it reads: "),
            0u)
      << ran.error().message;
  EXPECT_EQ(rank.messages().size(), 1u); // the launcher shows it
}

TEST(Stepper, GoesOnWithANanThatTheUserAllows) {
  SessionOptions options;
  options.allowNan = true;
  SessionRank rank(options);
  rank.openSamples(std::numeric_limits<float>::quiet_NaN());
  Stepper stepper(*rank, 0);
  EXPECT_TRUE(stepper.run(0));
  EXPECT_TRUE(FiniteChecks(*rank).checkWeights("step 1"));
}

TEST(FiniteChecks, WeightsThatBecameNanAreNotSaved) {
  SessionRank rank;
  FiniteChecks checks(*rank);
  EXPECT_TRUE(checks.checkWeights("step 1"));
  EXPECT_TRUE(checks.checkSaved());
  StoredSource nan;
  nan.read = [](uint64_t, void *into, uint64_t length) -> Result<void> {
    std::fill_n(static_cast<float *>(into), length / sizeof(float),
                std::numeric_limits<float>::quiet_NaN());
    return {};
  };
  ASSERT_TRUE(rank->program->loadTensor(0, nan));
  Result<void> finite = checks.checkWeights("step 1");
  ASSERT_FALSE(finite);
  EXPECT_NE(finite.error().message.find("linear.weight"), std::string::npos);
  EXPECT_NE(finite.error().message.find(
                " after step 1; lower the learning rate, or go on with "
                "--allow-nan"),
            std::string::npos)
      << finite.error().message;
  Result<void> saved = checks.checkSaved();
  ASSERT_FALSE(saved);
  EXPECT_NE(saved.error().message.find(" after the last step"),
            std::string::npos);
}

TEST(FiniteChecks, WeightsThatDoNotFitTheTypeOfTheFileAreNotSaved) {
  SessionOptions options;
  options.save = "w.safetensors";
  options.saveFloats = ElementType::F16;
  SessionRank rank(options);
  EXPECT_TRUE(FiniteChecks(*rank).checkSaved());
  StoredSource large;
  large.read = [](uint64_t, void *into, uint64_t length) -> Result<void> {
    std::fill_n(static_cast<float *>(into), length / sizeof(float), 1e6f);
    return {};
  };
  ASSERT_TRUE(rank->program->loadTensor(0, large));
  EXPECT_FALSE(FiniteChecks(*rank).checkSaved());
}

} // namespace
} // namespace polyrank::runtime::test
