// Logs are truncated where a run resumes, and lose nothing else.

#include "runtime/report/LogFile.h"
#include "runtime/report/Progress.h"
#include "test/support/TemporaryFolder.h"

#include <gtest/gtest.h>
#include <sstream>

namespace polyrank::runtime::test {
namespace {

using nlohmann::json;

constexpr const char *records = "{\"run\":{\"first_step\":1}}\n"
                                "{\"step\":1,\"loss\":3.0}\n"
                                "{\"step\":2,\"loss\":2.0}\n"
                                "{\"eval\":{\"step\":2,\"eval_loss\":2.5}}\n"
                                "{\"checkpoint\":{\"step\":2}}\n"
                                "{\"restart\":1}\n"
                                "{\"step\":3,\"loss\":1.0}\n"
                                "{\"eval\":{\"step\":3,\"eval_loss\":1.5}}\n"
                                "{\"checkpoint\":{\"step\":3}}\n";

/// Returns the first `count` lines.
std::string firstLines(int count) {
  std::istringstream lines(records);
  std::string text;
  for (std::string line; count-- > 0 && std::getline(lines, line);)
    text += line + "\n";
  return text;
}

TEST(LogFile, LosesWhatIsBehindAStepWhereARunGoesOnFromIt) {
  TemporaryFolder folder;
  std::string path = folder.write("log", records);
  ASSERT_TRUE(dropRecordsAfter(path, 3));
  EXPECT_EQ(folder.read("log"), records);
  ASSERT_TRUE(dropRecordsAfter(path, 2));
  EXPECT_EQ(folder.read("log"), firstLines(6));
  ASSERT_TRUE(dropRecordsAfter(path, 1));
  EXPECT_EQ(folder.read("log"), firstLines(2) + "{\"restart\":1}\n");
  ASSERT_TRUE(dropRecordsAfter(path, 0));
  EXPECT_EQ(folder.read("log"), firstLines(1) + "{\"restart\":1}\n");
  EXPECT_EQ(folder.count(), 1u);
  EXPECT_TRUE(dropRecordsAfter(folder.path("none"), 0));
  EXPECT_EQ(folder.count(), 1u);
}

TEST(LogFile, ALastLineThatIsNotWholeIsNoRecord) {
  TemporaryFolder folder;
  for (const char *torn : {"{\"step\":2,\"lo", "{\"step\":2}"}) {
    std::string path = folder.write("log", firstLines(2) + torn);
    int count = 0;
    ASSERT_TRUE(forEachRecord(path, [&](const json &) { ++count; }));
    EXPECT_EQ(count, 2);
    ASSERT_TRUE(dropRecordsAfter(path, 9));
    EXPECT_EQ(folder.read("log"), firstLines(2));
  }
}

TEST(LogFile, WhatIsNoLogStaysAsItIs) {
  TemporaryFolder folder;
  for (const char *wrong : {"{\"step\":1}\nnotes\n{\"step\":2}\n",
                            "{\"step\":1}\n[2]\n", "{\"step\":1}\n\n"}) {
    std::string path = folder.write("log", wrong);
    Result<void> dropped = dropRecordsAfter(path, 1);
    ASSERT_FALSE(dropped);
    EXPECT_NE(dropped.error().message.find("line 2 is no record of a log"),
              std::string::npos)
        << dropped.error().message;
    EXPECT_EQ(folder.read("log"), wrong);
    EXPECT_FALSE(forEachRecord(path, [](const json &) {}));
  }
  EXPECT_FALSE(forEachRecord(folder.path("none"), [](const json &) {}));
}

TEST(LogFile, ALongLogIsShortenedWhole) {
  TemporaryFolder folder;
  std::string text, expected;
  for (int step = 1; step <= 50'000; ++step) {
    std::string line =
        "{\"step\":" + std::to_string(step) + ",\"loss\":1.2345678901234567}\n";
    text += line;
    if (step <= 40'000)
      expected += line;
  }
  ASSERT_TRUE(dropRecordsAfter(folder.write("log", text), 40'000));
  EXPECT_TRUE(folder.read("log") == expected);
}

TEST(LogFile, StepsBelongToRecordsInOnePlace) {
  auto step = [](const char *record) {
    return stepOfRecord(json::parse(record));
  };
  EXPECT_EQ(step("{\"step\":3}"), 3u);
  EXPECT_EQ(step("{\"eval\":{\"step\":4}}"), 4u);
  EXPECT_EQ(step("{\"checkpoint\":{\"step\":5}}"), 5u);
  EXPECT_EQ(step("{\"run\":{\"step\":6}}"), std::nullopt);
  EXPECT_EQ(step("{\"step\":-1}"), std::nullopt);
  EXPECT_EQ(step("{\"eval\":7}"), std::nullopt);
}

/// Returns what a run writes to the log.
std::string logOf(TemporaryFolder &folder, uint64_t stepsBefore,
                  std::vector<uint64_t> steps) {
  PlanReport plan;
  ProgressOptions options;
  options.quiet = true;
  options.log = folder.path("log");
  options.stepsBefore = stepsBefore;
  options.run = {{"run", {{"first_step", steps[0]}}}};
  auto progress = Progress::open(plan, options);
  EXPECT_TRUE(progress) << progress.error().message;
  for (uint64_t step : steps) {
    StepReport report;
    report.step = step;
    (*progress)->step(report);
  }
  EXPECT_TRUE((*progress)->close());
  std::string text;
  EXPECT_TRUE(forEachRecord(options.log, [&](const json &record) {
    text += record.contains("run") ? "run " : record["step"].dump() + " ";
  }));
  return text;
}

TEST(LogFile, GoesBackWithARunThatFindsItsCheckpointDamaged) {
  TemporaryFolder folder;
  logOf(folder, 0, {1, 2, 3, 4});
  PlanReport plan;
  ProgressOptions options;
  options.quiet = true;
  options.log = folder.path("log");
  options.tensorboard = folder.path("events");
  options.stepsBefore = 4;
  options.run = {{"run", {{"first_step", 5}}}};
  auto progress = Progress::open(plan, options);
  ASSERT_TRUE(progress);
  ASSERT_TRUE((*progress)->startAfter(2));
  StepReport report;
  report.step = 3;
  (*progress)->step(report);
  ASSERT_TRUE((*progress)->close());
  std::string text;
  EXPECT_TRUE(forEachRecord(options.log, [&](const json &record) {
    text += record.contains("run")
                ? "run" + record["run"]["first_step"].dump() + " "
                : record["step"].dump() + " ";
  }));
  EXPECT_EQ(text, "run1 1 2 run5 run3 3 ");
  EXPECT_EQ(std::distance(
                std::filesystem::directory_iterator(options.tensorboard), {}),
            2);
}

TEST(LogFile, HasEachEvaluationOnceWhoeverDiedMeanwhile) {
  TemporaryFolder folder;
  PlanReport plan;
  ProgressOptions options;
  options.quiet = true;
  options.log = folder.path("log");
  auto progress = Progress::open(plan, options);
  ASSERT_TRUE(progress);
  auto step = [&](uint64_t number) {
    StepReport report;
    report.step = number;
    (*progress)->step(report);
  };
  auto evaluate = [&](uint64_t number) {
    EvaluationReport report;
    report.step = number;
    (*progress)->evaluated(report);
  };
  auto logged = [&] {
    std::string text;
    EXPECT_TRUE(forEachRecord(options.log, [&](const json &record) {
      if (record.contains("step"))
        text += record["step"].dump() + " ";
      if (record.contains("eval"))
        text += "eval" + record["eval"]["step"].dump() + " ";
    }));
    return text;
  };
  step(1), evaluate(1), step(2);
  // A rank died in the evaluation after step 2; all ranks resume after step 1.
  (*progress)->startAgain(1);
  evaluate(1), step(2), evaluate(2), step(3);
  ASSERT_TRUE((*progress)->close());
  EXPECT_EQ(logged(), "1 eval1 2 eval2 3 ");
  // So does a run that repeats the evaluation after its checkpoint.
  options.stepsBefore = 2;
  options.evaluatesAgain = true;
  progress = Progress::open(plan, options);
  ASSERT_TRUE(progress);
  evaluate(2), step(3);
  ASSERT_TRUE((*progress)->close());
  EXPECT_EQ(logged(), "1 eval1 2 eval2 3 ");
}

TEST(LogFile, IsAppendedByARunThatGoesOnAndBegunAnewByAnother) {
  TemporaryFolder folder;
  EXPECT_EQ(logOf(folder, 0, {1, 2, 3, 4}), "run 1 2 3 4 ");
  EXPECT_EQ(logOf(folder, 2, {3, 4}), "run 1 2 run 3 4 ");
  EXPECT_EQ(logOf(folder, 4, {5}), "run 1 2 run 3 4 run 5 ");
  EXPECT_EQ(logOf(folder, 0, {1}), "run 1 ");
  folder.write("log", "notes\n");
  PlanReport plan;
  ProgressOptions options;
  options.log = folder.path("log");
  options.stepsBefore = 1;
  EXPECT_FALSE(Progress::open(plan, options));
  EXPECT_EQ(folder.read("log"), "notes\n");
}

} // namespace
} // namespace polyrank::runtime::test
