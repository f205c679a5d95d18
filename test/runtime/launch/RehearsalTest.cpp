// polyrank-run --rehearse: runs without values that take the times of a file.

#include "runtime/plan/StepTimes.h"
#include "test/runtime/launch/RunFixture.h"

namespace polyrank::runtime::test {
namespace {

using nlohmann::json;

class RehearsalTest : public RunTest {
protected:
  std::string times = directory / "times.json",
              trace = directory / "trace.json";

  /// Makes times for two ranks, or with `tensor` for more, whose kernels take
  /// `kernel` picoseconds.
  void makeTimes(int64_t kernel, int64_t tensor = 1, bool hasOneQueue = false) {
    LinearModel model;
    model.data = 2, model.tensor = tensor;
    model.microbatches = 2, model.batch = 4;
    model.weights = directory / "no-weights.bin"; // which nobody reads
    plan::PlanT built = linearPlan(model);
    startEarly(built, updateSegment, 0, 3, 1);
    for (auto &segment : built.programs[0]->segments)
      for (auto &command : segment->commands)
        command->picoseconds = uint64_t(kernel);
    if (hasOneQueue) {
      auto &update = built.programs[0]->segments[updateSegment]->commands;
      update[2]->queue = update[0]->queue;
      built.programs[0]->communication_queues = 1;
    }
    ASSERT_TRUE(writePlan(plan, serialise(built)));
    Result<LoadedPlan> loaded = loadPlan(plan);
    ASSERT_TRUE(loaded);
    std::string text = timesText(plannedTimesOf(*loaded), *loaded, "planned");
    writeFile(times, text.data(), text.size());
  }

  std::vector<std::string>
  rehearsal(const std::vector<std::string> &more = {}) {
    std::vector<std::string> arguments{plan, "--rehearse", times, "--log",
                                       log,  "--steps",    "3"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  void expectRefused(const std::vector<std::string> &arguments,
                     const std::string &message) {
    Process process(arguments, errors);
    EXPECT_EQ(process.wait(), 1);
    EXPECT_NE(process.output().find(message), std::string::npos)
        << process.output();
  }
};

// There are 11 commands of 2 ms and two collectives of 30 ms in one group; the
// first collective overlaps one command. So 9 commands, the collectives, and
// the last command run one after another.
TEST_F(RehearsalTest, AStepTakesTheTimesOfTheFileAndOfTheLinks) {
  makeTimes(2'000'000'000);
  Process process(rehearsal({"--link", "data=15000:1", "--trace", trace}),
                  errors);
  EXPECT_EQ(process.wait(), 0) << process.output();
  std::string said = process.output();
  for (const char *text :
       {"nothing is computed, no weights are read and there is no loss; by "
        "these times and links a step takes ",
        "rehearsed: a step took ", " times as long"})
    EXPECT_NE(said.find(text), std::string::npos) << said;
  std::vector<json> lines = linesOf(log);
  ASSERT_EQ(lines.size(), 3u);
  for (const json &line : lines) {
    EXPECT_EQ(line["rehearsed"], true);
    EXPECT_FALSE(line.contains("loss"));
    EXPECT_FALSE(line.contains("lr"));
    EXPECT_GE(line["seconds"].get<double>(), 10 * 0.002 + 0.060 - 1e-6);
  }
  json traced = json::parse(readFile(trace), nullptr, false);
  ASSERT_FALSE(traced.is_discarded());
  EXPECT_EQ(traced["otherData"]["rehearsed"], true);
  EXPECT_EQ(traced["otherData"]["links"], json::array({"data=15000:1"}));
}

// The same of two groups, which the plan puts on one queue. If each had its own
// they would overlap, and a step would take 52 ms.
TEST_F(RehearsalTest, TheCollectivesOfAQueueRunOneAfterAnother) {
  makeTimes(2'000'000'000, 2, true);
  Process process(rehearsal({"--link", "data=15000:1"}), errors);
  EXPECT_EQ(process.wait(), 0) << process.output();
  for (const json &line : linesOf(log))
    EXPECT_GE(line["seconds"].get<double>(), 10 * 0.002 + 0.060 - 1e-6);
}

TEST_F(RehearsalTest, KernelsMayBeForAnotherMachine) {
  makeTimes(1'000'000);
  Result<LoadedPlan> loaded = loadPlan(plan);
  ASSERT_TRUE(loaded);
  std::unique_ptr<plan::PlanT> foreign(loaded->plan->UnPack());
  foreign->images[0]->requirements->features = {"avx9000"};
  ASSERT_TRUE(writePlan(plan, serialise(*foreign)));
  loaded = loadPlan(plan);
  ASSERT_TRUE(loaded);
  std::string text = timesText(plannedTimesOf(*loaded), *loaded, "planned");
  writeFile(times, text.data(), text.size());
  Process process(rehearsal(), errors);
  EXPECT_EQ(process.wait(), 0) << process.output();
}

TEST_F(RehearsalTest, WithoutALinkCommunicationTakesNoTime) {
  makeTimes(2'000'000'000);
  auto arguments = rehearsal({"--json"});
  Process process(arguments, errors);
  EXPECT_EQ(process.wait(), 0) << process.output();
  EXPECT_NE(process.output().find("if communication takes no time"),
            std::string::npos)
      << process.output();
  for (const json &line : linesOf(log))
    EXPECT_GE(line["seconds"].get<double>(), 11 * 0.002 - 1e-6);
}

TEST_F(RehearsalTest, HasNothingToReadOrToSave) {
  makeTimes(1000);
  for (const std::vector<std::string> &more :
       {std::vector<std::string>{"--data", data},
        {"--save", saved},
        {"--save-trained", saved},
        {"--save-ema", saved},
        {"--init", saved},
        {"--lr", "0.1"},
        {"--order", "sequential"},
        {"--profile", saved},
        {"--allow-nan"}})
    expectRefused(rehearsal(more), more[0] + ": --rehearse computes no values");
  EXPECT_NE(access(saved.c_str(), F_OK), 0);
}

TEST_F(RehearsalTest, TimesThatAreWrongAreRefusedBeforeARankStarts) {
  makeTimes(1000);
  json file = json::parse(readFile(times));
  file["plan"] = "00ff";
  std::string text = file.dump();
  writeFile(times, text.data(), text.size());
  expectRefused(rehearsal(), "has the times of plan '00ff'");
  times = directory / "none.json";
  expectRefused(rehearsal(), "none.json");
  EXPECT_NE(access(log.c_str(), F_OK), 0);
}

TEST_F(RehearsalTest, IsCheckedWithoutARank) {
  makeTimes(1000);
  auto arguments = rehearsal({"--check"});
  Process process(arguments, errors);
  EXPECT_EQ(process.wait(), 0) << process.output();
  EXPECT_NE(process.output().find("none are read (--rehearse)"),
            std::string::npos)
      << process.output();
}

} // namespace
} // namespace polyrank::runtime::test
