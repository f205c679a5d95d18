// Thinned curves keep what is visible, and pictures stay within their frame.

#include "runtime/report/LogSvg.h"
#include "test/support/TemporaryFolder.h"

#include <cmath>
#include <gtest/gtest.h>

namespace polyrank::runtime::test {
namespace {

using Curve = LoggedRun::Curve;

Curve curveOf(const std::vector<double> &values) {
  Curve curve;
  for (double value : values)
    curve.emplace_back(double(curve.size()), value);
  return curve;
}

std::vector<double> stepsOf(const Curve &curve) {
  std::vector<double> steps;
  for (auto &[step, value] : curve)
    steps.push_back(step);
  return steps;
}

TEST(Thinned, FirstLeastGreatestAndLastOfAColumnStay) {
  Curve curve = curveOf({5, 6, 1, 7, 9, 8, 3, 4, 4, 4});
  EXPECT_EQ(stepsOf(thinned(curve, 0, 10, 1)),
            (std::vector<double>{0, 2, 4, 9}));
  // If each value has a column, all are kept.
  EXPECT_EQ(thinned(curve, 0, 10, 10), curve);
  EXPECT_EQ(stepsOf(thinned(curve, 0, 10, 2)),
            (std::vector<double>{0, 2, 4, 5, 6, 9}));
  EXPECT_TRUE(thinned({}, 0, 1, 9).empty());
}

TEST(Thinned, AHoleStaysOneAndNoneIsLeastOrGreatest) {
  Curve curve = curveOf({NAN, 2, NAN, 1, 3, NAN, INFINITY, 2});
  Curve thin = thinned(curve, 0, 8, 1);
  std::vector<double> steps;
  int holes = 0;
  for (auto &[step, value] : thin)
    if (std::isfinite(value))
      steps.push_back(step);
    else
      ++holes;
  EXPECT_EQ(holes, 1);
  EXPECT_EQ(steps, (std::vector<double>{3, 4, 7}));
}

TEST(Smoothed, MeansAreOverBothSidesAndDoNotLag) {
  Curve mean = smoothed(curveOf({9, 8, 7, 6, 5, 4}), 5);
  std::vector<double> values;
  for (auto &[step, value] : mean)
    values.push_back(value);
  EXPECT_EQ(values, (std::vector<double>{9, 8, 7, 6, 5.5, 5}));
  mean = smoothed(curveOf({2, 3, NAN, 1, INFINITY}), 3);
  EXPECT_EQ(mean[0].second, 2);
  EXPECT_EQ(mean[1].second, 2.5);
  EXPECT_TRUE(std::isnan(mean[2].second));
  EXPECT_EQ(mean[3].second, 1);
  EXPECT_TRUE(std::isnan(mean[4].second));
}

constexpr const char *start =
    "{\"run\":{\"plan\":\"dir/"
    "gpt2.plan\",\"mesh\":\"data=2\",\"first_step\":1}}\n";

TEST(LoggedRun, IsReadFromItsRecords) {
  TemporaryFolder folder;
  std::string path = folder.write(
      "a.jsonl",
      std::string(start) +
          "{\"step\":1,\"loss\":3.5,\"lr\":0.1,\"samples_per_second\":4,"
          "\"tokens_per_second\":64}\n"
          "{\"eval\":{\"step\":1,\"eval_loss\":3.25}}\n"
          "{\"checkpoint\":{\"step\":1}}\n"
          "{\"run\":{\"first_step\":2}}\n"
          "{\"step\":2,\"loss\":null,\"lr\":0.2,\"samples_per_second\":8,"
          "\"tokens_per_second\":128}\n");
  auto run = readLoggedRun(path);
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_EQ(run->name, "a.jsonl");
  ASSERT_EQ(run->loss.size(), 2u);
  EXPECT_EQ(run->loss[0].second, 3.5);
  EXPECT_TRUE(std::isnan(run->loss[1].second));
  EXPECT_EQ(run->evalLoss, (Curve{{1, 3.25}}));
  EXPECT_EQ(run->learningRate, (Curve{{1, 0.1}, {2, 0.2}}));
  EXPECT_EQ(run->speed, (Curve{{1, 64}, {2, 128}}));
  EXPECT_TRUE(run->speedIsOfTokens);
  EXPECT_EQ(run->resumed, std::vector<uint64_t>{2});
  EXPECT_EQ(run->lastStep, 2u);
  auto none = readLoggedRun(folder.write("none", start));
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("has no record of a step"),
            std::string::npos);
}

LoggedRun runOf(size_t steps) {
  LoggedRun run;
  run.name = "run.jsonl";
  for (size_t step = 1; step <= steps; ++step) {
    double at = double(step);
    run.loss.emplace_back(at, step % 7 == 3 ? NAN : 10 / std::sqrt(at));
    run.learningRate.emplace_back(at, 1e-3);
    run.speed.emplace_back(at, 1000 + double(step % 10));
  }
  run.lastStep = steps;
  return run;
}

TEST(LogSvg, IsAsLargeForManyStepsAsForSome) {
  std::string some = logSvg({runOf(5'000)}), many = logSvg({runOf(200'000)});
  EXPECT_LT(many.size(), some.size() * 3 / 2);
}

TEST(LogSvg, HasNoNumberThatIsNone) {
  LoggedRun nothing = runOf(3);
  for (auto &[step, value] : nothing.loss)
    value = NAN;
  LoggedRun flat = runOf(50);
  for (auto &[step, value] : flat.loss)
    value = 0;
  LoggedRun forward = runOf(5);
  forward.loss.clear(), forward.learningRate.clear();
  LoggedRun steep = runOf(100);
  for (auto &[step, value] : steep.loss)
    value = std::exp(-step);
  for (const auto &runs : std::vector<std::vector<LoggedRun>>{
           {runOf(1)},
           {nothing},
           {flat},
           {forward},
           {steep},
           {runOf(1), runOf(100), nothing, forward}}) {
    std::string picture = logSvg(runs);
    EXPECT_EQ(picture.find("\"nan"), std::string::npos);
    EXPECT_EQ(picture.find("-nan"), std::string::npos);
    EXPECT_EQ(picture.find("nan,"), std::string::npos);
    EXPECT_EQ(picture.find(",nan"), std::string::npos);
    EXPECT_EQ(picture.find("inf,"), std::string::npos);
  }
  EXPECT_NE(logSvg({steep}).find("loss (logarithmic)"), std::string::npos);
  EXPECT_NE(logSvg({nothing}).find("not finite in 3 steps, the first 1"),
            std::string::npos);
}

} // namespace
} // namespace polyrank::runtime::test
