// Files of times: what is written is read again, and what is wrong is refused.

#include "runtime/plan/StepTimes.h"

#include "test/runtime/PlanBuilder.h"

#include <functional>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace polyrank::runtime::test {
namespace {

using nlohmann::json;

/// Three microbatches; the update has a collective that is started and waited
/// for. Each computing command has a time of its own.
LoadedPlan timedPlan(int64_t first = 5'000'000) {
  LinearModel model;
  model.data = 2, model.microbatches = 3, model.batch = 12;
  plan::PlanT plan = linearPlan(model);
  startEarly(plan, updateSegment, 0, 3, 1);
  for (auto &segment : plan.programs[0]->segments)
    for (auto &command : segment->commands)
      command->picoseconds = uint64_t(first++);
  return load(plan);
}

class StepTimesTest : public testing::Test {
protected:
  TemporaryDirectory directory;
  std::string path = directory / "times.json";
  LoadedPlan plan = timedPlan();

  json written() const {
    return json::parse(timesText(plannedTimesOf(plan), plan, "planned"));
  }
  Result<StepTimes> read(const std::string &text) {
    writeFile(path, text.data(), text.size());
    return readTimes(path, plan);
  }
  void expectRefused(const std::function<void(json &)> &change,
                     const std::string &message) {
    json file = written();
    change(file);
    Result<StepTimes> times = read(file.dump());
    ASSERT_FALSE(times) << message;
    EXPECT_NE(times.error().message.find(message), std::string::npos)
        << times.error().message;
    EXPECT_NE(times.error().message.find(path), std::string::npos);
  }
};

TEST_F(StepTimesTest, AreReadAsTheyWereWritten) {
  Result<StepTimes> times = read(written().dump());
  ASSERT_TRUE(times) << times.error().message;
  EXPECT_EQ(*times, plannedTimesOf(plan));
  const auto &commands =
      *plan.program().segments()->Get(updateSegment)->commands();
  bool hasWait = false;
  for (uint32_t number = 0; number < commands.size(); ++number)
    if (commands.Get(number)->body_as_Wait()) {
      hasWait = true;
      EXPECT_EQ((*times)[0][updateSegment][number], 0);
    }
  EXPECT_TRUE(hasWait);
}

TEST_F(StepTimesTest, OnlyWhatIsComputedIsInTheFile) {
  json file = written();
  EXPECT_EQ(file["report"], "times");
  EXPECT_EQ(file["source"], "planned");
  EXPECT_EQ(file["plan"], toHex(plan.bytes.hash));
  for (const json &command : file["segments"][updateSegment]["commands"])
    EXPECT_EQ(command["command"].get<std::string>().find("AllReduce"),
              std::string::npos);
  file["segments"][firstSegment]["commands"][0]["microseconds"] = 0.25;
  Result<StepTimes> times = read(file.dump());
  ASSERT_TRUE(times) << times.error().message;
  EXPECT_EQ((*times)[0][firstSegment][0], 250'000);
}

TEST_F(StepTimesTest, WhatIsWrongIsNamed) {
  auto command = [](json &file) -> json & {
    return file["segments"][firstSegment]["commands"][0];
  };
  expectRefused([](json &file) { file["report"] = "profile"; },
                "is no file of times");
  expectRefused([](json &file) { file = json::array(); },
                "is no file of times");
  expectRefused([](json &file) { file["version"] = 99; },
                "has another version than 1");
  expectRefused([](json &file) { file["plan"] = "00ff"; },
                "has the times of plan '00ff'");
  expectRefused([](json &file) { file.erase("segments"); },
                "has no list of segments");
  expectRefused([](json &file) { file["segments"][0] = 1; },
                "a segment is no object");
  expectRefused([](json &file) { file["segments"][0]["name"] = "third"; },
                "the plan has no segment 'third'");
  expectRefused([](json &file) { file["segments"][0]["commands"] = 3; },
                "segment 'first' has no list of commands");
  expectRefused([&](json &file) { command(file) = nullptr; },
                "segment 'first': a command is no object");
  expectRefused([&](json &file) { command(file)["number"] = 1000; },
                "segment 'first' has commands 0 to 4, and no 1000");
  expectRefused([&](json &file) { command(file)["number"] = -1; }, "no -1");
  expectRefused([&](json &file) { command(file)["microseconds"] = -0.5; },
                "segment 'first', command 0 (");
  expectRefused([&](json &file) { command(file)["microseconds"] = -0.5; },
                "-0.5 is not from 0 to 8.64e+10 microseconds");
  expectRefused([&](json &file) { command(file)["microseconds"] = "long"; },
                "\"long\" is not from 0");
  expectRefused([&](json &file) { command(file)["microseconds"] = 9e10; },
                "is not from 0");
  expectRefused([&](json &file) { command(file).erase("microseconds"); },
                "nothing is not from 0");
  expectRefused(
      [&](json &file) {
        file["segments"][firstSegment]["commands"].push_back(command(file));
      },
      "has two times");
  expectRefused(
      [](json &file) { file["segments"][firstSegment]["commands"].erase(2); },
      "segment 'first', command 2 (");
  expectRefused(
      [](json &file) { file["segments"][firstSegment]["commands"].erase(2); },
      "has no time");
  expectRefused([](json &file) { file["segments"].erase(updateSegment); },
                "has no time");
  expectRefused(
      [](json &file) {
        file["segments"][updateSegment]["commands"].push_back(
            {{"number", 0}, {"microseconds", 1}});
      },
      "has a time, and takes as long as it takes; --link");
  // Each time by itself would be accepted.
  expectRefused(
      [](json &file) {
        for (json &each : file["segments"][firstSegment]["commands"])
          each["microseconds"] = 8e10;
      },
      "a step would compute for");
}

TEST_F(StepTimesTest, AFileThatIsCutOffOrGoneIsRefused) {
  std::string text = written().dump();
  Result<StepTimes> torn = read(text.substr(0, text.size() / 2));
  ASSERT_FALSE(torn);
  EXPECT_NE(torn.error().message.find("is no whole JSON file"),
            std::string::npos);
  EXPECT_FALSE(readTimes(directory / "none.json", plan));
}

TEST_F(StepTimesTest, TimesOfAnotherPlanAreRefused) {
  std::string text = timesText(plannedTimesOf(plan), plan, "planned");
  plan = timedPlan(7'000'000);
  Result<StepTimes> times = read(text);
  ASSERT_FALSE(times);
  EXPECT_NE(times.error().message.find("has the times of plan"),
            std::string::npos);
}

} // namespace
} // namespace polyrank::runtime::test
