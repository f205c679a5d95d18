// polyrank-run as a process: its results, logs and files, and its end.

#include "support/safetensors/Safetensors.h"
#include "test/runtime/launch/RunFixture.h"

namespace polyrank::runtime::test {
namespace {

TEST_F(RunTest, TrainsToTheSameWeightsOnEveryMesh) {
  std::vector<double> weight, losses;
  reference(weight, losses);
  for (auto [dataAxis, tensor, microbatches] :
       {std::tuple(1, 1, 1), {1, 1, 2}, {2, 1, 1}, {1, 4, 2}, {2, 2, 2}}) {
    SCOPED_TRACE(testing::Message()
                 << dataAxis << " x " << tensor << ", " << microbatches);
    makePlan(dataAxis, tensor, microbatches);
    ASSERT_EQ(runTraining(), 0) << readFile(errors);
    auto lines = linesOf(log);
    ASSERT_EQ(lines.size(), 5u);
    for (size_t step = 0; step < 5; ++step) {
      EXPECT_EQ(lines[step]["step"], step + 1);
      EXPECT_NEAR(lines[step]["loss"].get<double>(), losses[step],
                  1e-5 * losses[step]);
      EXPECT_GT(lines[step]["samples_per_second"].get<double>(), 0);
    }
    auto file = SafetensorsFile::open(saved);
    ASSERT_TRUE(file) << file.error().message;
    for (const char *name : {"linear.weight", "tied.weight"}) {
      const StoredTensorSpan *tensorSpan = file->find(name);
      ASSERT_TRUE(tensorSpan) << name;
      EXPECT_EQ(tensorSpan->shape, (std::vector<int64_t>{targets, features}));
      std::vector<float> values(weight.size());
      ASSERT_TRUE(file->read(*tensorSpan, 0, values.data(), 4 * values.size()));
      for (size_t i = 0; i < values.size(); ++i)
        EXPECT_NEAR(values[i], weight[i], 1e-6) << name << " " << i;
    }
  }
}

TEST_F(RunTest, GivesTheSameBitsTwiceAndStartsFromWhatItSaved) {
  makePlan(2, 2, 2);
  ASSERT_EQ(runTraining("4"), 0) << readFile(errors);
  std::string first = readFile(saved);
  ASSERT_EQ(runTraining("4"), 0);
  EXPECT_EQ(first, readFile(saved));

  // Two runs of two steps, connected by a file and on different meshes, equal
  // one of four: the data restart, so the number of steps is a whole epoch.
  std::string half = directory / "half.safetensors";
  ASSERT_EQ(rename(saved.c_str(), half.c_str()), 0);
  makePlan(1, 1, 2);
  auto arguments = training("1");
  arguments.insert(arguments.end(), {"--init", half});
  Process process(arguments, errors);
  ASSERT_EQ(process.wait(), 0) << process.output();
  double loss = linesOf(log)[0]["loss"];
  makePlan(2, 2, 2);
  ASSERT_EQ(runTraining("5"), 0);
  EXPECT_NEAR(linesOf(log)[4]["loss"].get<double>(), loss, 1e-5 * loss);
}

// The gradient and the loss are in flight at once.
TEST_F(RunTest, StartedCollectivesGiveTheSameBitsAndAreReported) {
  LinearModel model;
  model.data = 2, model.tensor = 2, model.microbatches = 2, model.batch = 4;
  model.weights = weights;
  plan::PlanT started = linearPlan(model);
  ASSERT_TRUE(writePlan(plan, serialise(started)));
  ASSERT_EQ(runTraining(), 0) << readFile(errors);
  std::string expected = readFile(saved);
  startEarly(started, updateSegment, 0, 3, 2);
  startEarly(started, updateSegment, 2, 3, 1);
  ASSERT_TRUE(writePlan(plan, serialise(started)));
  auto arguments = training("5");
  arguments.insert(arguments.end(), {"--json", "-q"});
  Process process(arguments, errors);
  ASSERT_EQ(process.wait(), 0) << process.output();
  EXPECT_EQ(readFile(saved), expected);
  std::string output = process.output();
  auto report = nlohmann::json::parse(output.substr(output.find("{\n")));
  for (const auto &rank : report["ranks"]) {
    EXPECT_GT(rank["starting_seconds"], 0);
    EXPECT_GT(rank["communication_seconds"], rank["starting_seconds"]);
  }
}

TEST_F(RunTest, CommunicationThreadsGiveTheSameBitsAndAreSaid) {
  LinearModel model;
  model.data = 2, model.tensor = 2, model.microbatches = 2, model.batch = 4;
  model.weights = weights;
  plan::PlanT started = linearPlan(model);
  startEarly(started, updateSegment, 0, 3, 2);
  startEarly(started, updateSegment, 2, 3, 1);
  ASSERT_TRUE(writePlan(plan, serialise(started)));
  ASSERT_EQ(runTraining(), 0) << readFile(errors);
  std::string expected = readFile(saved);
  auto arguments = training("5");
  arguments.insert(arguments.end(), {"--comm-threads", "2"});
  Process process(arguments, errors);
  ASSERT_EQ(process.wait(), 0) << process.output();
  EXPECT_EQ(readFile(saved), expected);
  EXPECT_NE(process.output().find("--comm-threads 2: so many threads of each "
                                  "rank"),
            std::string::npos)
      << process.output();
}

TEST_F(RunTest, CommunicationThreadsWithNothingToDoAreRefused) {
  makePlan(2, 1, 1); // starts nothing ahead of its wait
  struct {
    const char *count, *message;
  } wrongs[] = {{"1", "--comm-threads 1: no collective of this plan is in "
                      "flight"},
                {"9", "is no whole number from 0 to 8"},
                {"-1", "is no whole number from 0 to 8"}};
  for (auto &wrong : wrongs) {
    auto arguments = training("1");
    arguments.insert(arguments.end(), {"--comm-threads", wrong.count});
    Process process(arguments, errors);
    EXPECT_EQ(process.wait(), 1) << process.output();
    EXPECT_NE(process.output().find(wrong.message), std::string::npos)
        << process.output();
  }
  auto arguments = training("1");
  arguments.insert(arguments.end(), {"--comm-threads", "0"});
  Process process(arguments, errors);
  EXPECT_EQ(process.wait(), 0) << process.output();
}

TEST_F(RunTest, IsHeldBackToALinkAndSaysSo) {
  makePlan(2, 1, 1);
  auto arguments = training("3");
  arguments.insert(arguments.end(), {"--link", "data=5000:0.001", "--json"});
  Process process(arguments, errors);
  ASSERT_EQ(process.wait(), 0) << process.output();
  std::string output = process.output();
  EXPECT_NE(output.find("--link data=5000:0.001: collectives over data take at "
                        "least 5000 us a round"),
            std::string::npos)
      << output;
  size_t begin = output.find("{\n"), end = output.find("\n}\n", begin) + 3;
  auto report = nlohmann::json::parse(output.substr(begin, end - begin));
  EXPECT_EQ(report["links"], (std::vector<std::string>{"data=5000:0.001"}));
  // The gradient's 48 bytes and the loss's 4, each in two rounds: 2 n / 2 bytes
  // at a byte in a microsecond.
  for (const auto &line : linesOf(log))
    EXPECT_GE(line["seconds"].get<double>(), 1e-6 * (4 * 5000 + 48 + 4));
  EXPECT_GE(report["ranks"][0]["waiting_seconds"].get<double>(), 3 * 0.02);

  Process wrong({plan, "--data", data, "--steps", "1", "--link", "dat=1:1"},
                errors);
  EXPECT_EQ(wrong.wait(), 1);
  EXPECT_NE(wrong.output().find("no axis 'dat'"), std::string::npos)
      << wrong.output();
}

TEST_F(RunTest, WritesTheOutputsOfAllSamplesOfAForwardPlan) {
  makePlan(2, 2, 2, true);
  std::string inputs = directory / "in.npz", outputs = directory / "out.npz";
  auto writer = NpzWriter::create(inputs);
  ASSERT_TRUE(writer);
  constexpr int64_t count = 13; // no multiple of the batch
  std::vector<int64_t> shape{count, features};
  ASSERT_TRUE(writer->add("x", ElementType::F32, shape,
                          std::as_bytes(std::span(x).first(count * features))));
  ASSERT_TRUE(writer->commit());
  Process process({plan, "--inputs", inputs, "--outputs", outputs}, errors);
  ASSERT_EQ(process.wait(), 0) << process.output();
  auto arrays = openNpz(outputs);
  ASSERT_TRUE(arrays) << arrays.error().message;
  ASSERT_EQ(arrays->size(), 1u);
  EXPECT_EQ((*arrays)[0].name(), "y");
  EXPECT_EQ((*arrays)[0].shape(), (std::vector<int64_t>{count, targets}));
  std::vector<float> y(count * targets);
  ASSERT_TRUE((*arrays)[0].read(0, count * targets,
                                reinterpret_cast<std::byte *>(y.data())));
  for (int64_t s = 0; s < count; ++s)
    for (int64_t j = 0; j < targets; ++j) {
      double expected = 0;
      for (int64_t i = 0; i < features; ++i)
        expected += double(x[s * features + i]) * w[j * features + i];
      EXPECT_NEAR(y[s * targets + j], expected, 1e-6);
    }
}

TEST_F(RunTest, EndsAllRanksAndNamesTheOneThatWasKilled) {
  makePlan(2, 2, 1);
  auto process = startEndless();
  std::vector<pid_t> ranks = process->children();
  ASSERT_EQ(ranks.size(), 4u);
  auto killed = Clock::now();
  kill(ranks[2], SIGKILL);
  EXPECT_EQ(process->wait(), 2) << process->output();
  expectGone(ranks, killed);
  EXPECT_NE(
      process->output().find("rank 2 (data=1,tensor=0) was killed by signal 9"),
      std::string::npos)
      << process->output();
  EXPECT_TRUE(sharedMemoryFiles().empty());
  EXPECT_EQ(access(saved.c_str(), F_OK), -1);
}

TEST_F(RunTest, EndsAllRanksOnCtrlC) {
  makePlan(2, 2, 1);
  auto process = startEndless();
  std::vector<pid_t> ranks = process->children();
  auto interrupted = Clock::now();
  kill(process->pid, SIGINT);
  EXPECT_EQ(process->wait(), 2) << process->output();
  expectGone(ranks, interrupted);
  EXPECT_NE(process->output().find("interrupted"), std::string::npos)
      << process->output();
}

TEST_F(RunTest, TakesTheRanksAlongWhenItIsKilledItself) {
  makePlan(2, 1, 1);
  auto process = startEndless();
  std::vector<pid_t> ranks = process->children();
  auto killed = Clock::now();
  kill(process->pid, SIGKILL);
  EXPECT_EQ(process->wait(), -SIGKILL);
  auto gone = [&] {
    for (pid_t rank : ranks)
      if (readFile("/proc/" + std::to_string(rank) + "/cmdline").size())
        return false;
    return true;
  };
  while (!gone() && Clock::now() < killed + std::chrono::seconds(2))
    usleep(1000);
  EXPECT_TRUE(gone());
}

TEST_F(RunTest, ReportsACrashInAKernelAsTheRanks) {
  LinearModel model;
  model.data = 2, model.batch = 8, model.weights = weights;
  plan::PlanT crashing = linearPlan(model);
  crashing.programs[0]
      ->segments[updateSegment]
      ->commands.back()
      ->body.AsLaunch()
      ->kernel = 5;
  ASSERT_TRUE(writePlan(plan, serialise(crashing)));
  EXPECT_EQ(runTraining(), 2);
  EXPECT_NE(readFile(errors).find("was killed by signal 11"), std::string::npos)
      << readFile(errors);
}

TEST_F(RunTest, EndsWithALossThatIsNan) {
  std::vector<float> inputs = x;
  inputs[8 * features] = NAN; // in the second step
  writeData(inputs);
  makePlan(1, 1, 1);
  EXPECT_EQ(runTraining("3"), 6) << readFile(errors);
  EXPECT_NE(readFile(errors).find("step 2: the loss is NaN, and so is what it "
                                  "reads: " +
                                  data + ", array 'x': value nan at element " +
                                  std::to_string(8 * features)),
            std::string::npos)
      << readFile(errors);
  EXPECT_EQ(access(saved.c_str(), F_OK), -1);
  auto lines = linesOf(log);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(lines[1]["loss"].is_null());
  EXPECT_EQ(lines[1]["not_finite"][0], "loss");
}

TEST_F(RunTest, RefusesAPlanForAnotherInstructionSet) {
  LinearModel model;
  model.data = 2, model.batch = 8, model.weights = weights;
  plan::PlanT foreign = linearPlan(model);
  foreign.images[0]->requirements->machine = "x86-64-v9";
  foreign.images[0]->requirements->features = {"sse2", "avx9000"};
  ASSERT_TRUE(writePlan(plan, serialise(foreign)));
  EXPECT_EQ(runTraining(), 1);
  EXPECT_NE(readFile(errors).find("compiled for CPU 'x86-64-v9' and need "
                                  "avx9000, which this CPU lacks: compile "
                                  "again here, or with --cpu x86-64-v3"),
            std::string::npos)
      << readFile(errors);
}

TEST_F(RunTest, TakesTheFirstImageThatThisMachineRuns) {
  LinearModel model;
  model.data = 2, model.batch = 8, model.weights = weights;
  plan::PlanT several = linearPlan(model);
  ASSERT_TRUE(writePlan(plan, serialise(several)));
  ASSERT_EQ(runTraining(), 0) << readFile(errors);
  std::string usual = readFile(saved);
  several.images.insert(several.images.begin(), testImage());
  several.images[0]->requirements->features = {"avx9000"};
  several.images[0]->bytes = {1, 2, 3};
  ASSERT_TRUE(writePlan(plan, serialise(several)));
  EXPECT_EQ(runTraining(), 0) << readFile(errors);
  EXPECT_EQ(readFile(saved), usual);
}

TEST_F(RunTest, ComputesWithDenormalsAsThePlanSays) {
  // The data are zero, so no step changes these weights, but reading a denormal
  // one as zero does.
  std::fill(w.begin(), w.end(), 1e-40f);
  std::fill(x.begin(), x.end(), 0.0f);
  std::vector<float> file(4, 0);
  file.insert(file.end(), w.begin(), w.end());
  writeFile(weights, file.data(), 4 * file.size());
  writeData(x);
  LinearModel model;
  model.batch = 8, model.weights = weights;
  plan::PlanT built = linearPlan(model);
  std::string kept(reinterpret_cast<const char *>(w.data()), 4 * w.size());
  for (auto [mode, name] : {std::pair(plan::Denormals::keep, "keep"),
                            {plan::Denormals::flush, "flush"}}) {
    built.denormals = mode;
    ASSERT_TRUE(writePlan(plan, serialise(built)));
    auto arguments = training("1");
    arguments.insert(arguments.end(), {"--denormals", name});
    Process process(arguments, errors);
    EXPECT_EQ(process.wait(), 0) << process.output();
    EXPECT_EQ(readFile(saved).find(kept) != std::string::npos,
              mode == plan::Denormals::keep);
  }
}

TEST_F(RunTest, AnswersWrongInputWithStatusOneAndAMessage) {
  makePlan(1, 1, 1);
  struct Wrong {
    std::vector<std::string> arguments;
    const char *message;
  };
  const Wrong wrongs[] = {
      {{directory / "no.plan", "--data", data, "--steps", "1"}, "no.plan"},
      {{data, "--data", data, "--steps", "1"}, "is not a plan"},
      {{plan, "--data", directory / "no.npz", "--steps", "1"}, "no.npz"},
      {{plan, "--steps", "1"}, "--data"},
      {{plan, "--data", data}, "--steps"},
      {{plan, "--data", data, "--steps", "1", "--threads", "7"}, "--threads 7"},
      {{plan, "--data", data, "--steps", "1", "--denormals", "keep"},
       "--denormals keep: the plan was compiled with --denormals flush; "
       "compile "
       "it again with --denormals keep"},
      {{plan, "--data", data, "--steps", "1", "--init", plan}, "linear.plan"},
      {{plan, "--data", data, "--steps", "1", "--save", "/nowhere/w.st"},
       "/nowhere"},
      {{plan, "--data", data, "--steps", "1", "--transport", "mpi"},
       "--transport"},
      {{plan, "--inputs", data, "--outputs", directory / "o.npz"}, "forward"},
      {{plan, "--data", data, "--steps", "1", "--surprise"}, "--surprise"},
  };
  for (const Wrong &wrong : wrongs) {
    Process process(wrong.arguments, errors);
    EXPECT_EQ(process.wait(), 1) << process.output();
    EXPECT_NE(process.output().find(wrong.message), std::string::npos)
        << process.output();
  }
  Process help({"--help"}, errors);
  EXPECT_EQ(help.wait(), 0);
}

} // namespace
} // namespace polyrank::runtime::test
