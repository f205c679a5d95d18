// polyrank-run with plans of two programs: its results, logs and files, and its
// end.

#include "runtime/plan/StepTimes.h"
#include "support/safetensors/Safetensors.h"
#include "test/runtime/PipelineBuilder.h"
#include "test/runtime/launch/RunFixture.h"

#include <fmt/format.h>

namespace polyrank::runtime::test {
namespace {

using nlohmann::json;

class PipelineRunTest : public RunTest {
protected:
  std::vector<float> v;

  void SetUp() override {
    RunTest::SetUp();
    for (int i = 0; i < 9; ++i)
      v.push_back(0.3f * static_cast<float>(i % 4) - 0.4f);
    std::vector<float> file(4, 0);
    file.insert(file.end(), v.begin(), v.end());
    file.insert(file.end(), w.begin(), w.end());
    writeFile(weights, file.data(), 4 * file.size());
  }

  PipelineModel modelOf(int64_t dataAxis, int64_t microbatches, uint32_t slots,
                        int64_t warmUp) {
    PipelineModel model;
    model.data = dataAxis, model.microbatches = microbatches;
    model.batch = 8 / microbatches;
    model.slots = slots, model.warmUp = warmUp;
    model.weights = weights;
    return model;
  }

  void write(const plan::PlanT &built) {
    auto bytes = serialise(built);
    auto verified = verifyPlan(bytes);
    ASSERT_TRUE(verified) << verified.error().message;
    auto written = writePlan(plan, bytes);
    ASSERT_TRUE(written) << written.error().message;
  }

  /// Five steps of gradient descent by plain loops.
  void reference(std::vector<double> &first, std::vector<double> &second,
                 std::vector<double> &losses) {
    first.assign(v.begin(), v.end());
    second.assign(w.begin(), w.end());
    for (int step = 0; step < 5; ++step) {
      std::vector<double> df(9), ds(12);
      double loss = 0;
      for (int b = 0; b < 8; ++b) {
        int sample = (8 * step + b) % samples;
        double h[3] = {}, dh[3] = {};
        for (int i = 0; i < 3; ++i)
          for (int j = 0; j < 3; ++j)
            h[j] += x[sample * features + i] * first[3 * i + j];
        for (int j = 0; j < targets; ++j) {
          double d = -t[sample * targets + j];
          for (int i = 0; i < 3; ++i)
            d += second[3 * j + i] * h[i];
          loss += d * d;
          for (int i = 0; i < 3; ++i)
            dh[i] += second[3 * j + i] * d, ds[3 * j + i] += d * h[i];
        }
        for (int i = 0; i < 3; ++i)
          for (int j = 0; j < 3; ++j)
            df[3 * i + j] += x[sample * features + i] * dh[j];
      }
      losses.push_back(loss);
      for (int i = 0; i < 9; ++i)
        first[i] -= 0.01 * df[i];
      for (int i = 0; i < 12; ++i)
        second[i] -= 0.01 * ds[i];
    }
  }

  void expectSaved(const std::string &path, const char *name,
                   const std::vector<double> &expected) {
    auto file = SafetensorsFile::open(path);
    ASSERT_TRUE(file) << file.error().message;
    const StoredTensorSpan *span = file->find(name);
    ASSERT_TRUE(span) << name;
    std::vector<float> values(expected.size());
    ASSERT_TRUE(file->read(*span, 0, values.data(), 4 * values.size()));
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(values[i], expected[i], 1e-6) << name << " " << i;
  }
};

TEST_F(PipelineRunTest, TrainsAsOneProgramWould) {
  std::vector<double> first, second, losses;
  reference(first, second, losses);
  std::string bits;
  // (data, microbatches, slots, forwards before a backward)
  for (auto [dataAxis, microbatches, slots, warmUp] : {std::tuple(1, 1, 1u, 1),
                                                       {1, 4, 1u, 1},
                                                       {1, 4, 1u, 2},
                                                       {1, 4, 2u, 2},
                                                       {1, 4, 4u, 4},
                                                       {2, 2, 1u, 1},
                                                       {2, 4, 2u, 2}}) {
    SCOPED_TRACE(testing::Message() << dataAxis << ", " << microbatches << ", "
                                    << slots << ", " << warmUp);
    write(pipelinePlan(modelOf(dataAxis, microbatches, slots, warmUp)));
    ASSERT_EQ(runTraining(), 0) << readFile(errors);
    auto lines = linesOf(log);
    ASSERT_EQ(lines.size(), 5u);
    for (size_t step = 0; step < 5; ++step) {
      EXPECT_NEAR(lines[step]["loss"].get<double>(), losses[step],
                  1e-5 * losses[step]);
      // The first metric is of the first program, the second of the second.
      EXPECT_EQ(lines[step]["rows"], 8 / microbatches / dataAxis);
      EXPECT_EQ(lines[step]["targets"], targets);
    }
    expectSaved(saved, "first.weight", first);
    expectSaved(saved, "second.weight", second);
    // The order of microbatches and the slots change no bit.
    if (dataAxis == 1 && microbatches == 4) {
      if (bits.empty())
        bits = readFile(saved);
      EXPECT_EQ(readFile(saved), bits);
    }
  }
}

TEST_F(PipelineRunTest, StartsFromWhatItSaved) {
  write(pipelinePlan(modelOf(2, 2, 1, 1)));
  ASSERT_EQ(runTraining("4"), 0) << readFile(errors);
  std::string half = directory / "half.safetensors";
  ASSERT_EQ(rename(saved.c_str(), half.c_str()), 0);
  ASSERT_EQ(runTraining("5"), 0);
  double fifth = linesOf(log)[4]["loss"];
  auto arguments = training("1");
  arguments.insert(arguments.end(), {"--init", half});
  Process process(arguments, errors);
  ASSERT_EQ(process.wait(), 0) << process.output();
  EXPECT_NEAR(linesOf(log)[0]["loss"].get<double>(), fifth, 1e-5 * fifth);
}

TEST_F(PipelineRunTest, WritesTheOutputsOfTheRanksThatHaveThem) {
  write(pipelineForwardPlan(modelOf(2, 2, 1, 1)));
  std::string in = directory / "in.npz", out = directory / "out.npz";
  auto writer = NpzWriter::create(in);
  ASSERT_TRUE(writer);
  std::vector<int64_t> shape{samples, features};
  ASSERT_TRUE(
      writer->add("x", ElementType::F32, shape, std::as_bytes(std::span(x))));
  ASSERT_TRUE(writer->commit());
  Process process({plan, "--inputs", in, "--outputs", out}, errors);
  ASSERT_EQ(process.wait(), 0) << process.output();
  auto arrays = openNpz(out);
  ASSERT_TRUE(arrays) << arrays.error().message;
  ASSERT_EQ(arrays->size(), 1u);
  EXPECT_EQ((*arrays)[0].name(), "y");
  EXPECT_EQ((*arrays)[0].shape(), (std::vector<int64_t>{samples, targets}));
  std::vector<float> values(samples * targets);
  ASSERT_TRUE((*arrays)[0].read(0, samples * targets,
                                reinterpret_cast<std::byte *>(values.data())));
  for (int sample = 0; sample < samples; ++sample)
    for (int j = 0; j < targets; ++j) {
      double expected = 0;
      for (int k = 0; k < 3; ++k)
        for (int i = 0; i < 3; ++i)
          expected += x[sample * features + i] * v[3 * i + k] * w[3 * j + k];
      EXPECT_NEAR(values[sample * targets + j], expected, 1e-5);
    }
}

TEST_F(PipelineRunTest, ALossThatBecomesNaNEndsTheRunWhoeverHasIt) {
  write(pipelinePlan(modelOf(1, 2, 1, 1)));
  std::vector<float> wrong = x;
  wrong[features * 17] = std::numeric_limits<float>::quiet_NaN();
  writeData(wrong);
  EXPECT_EQ(runTraining(), 6) << readFile(errors);
  EXPECT_NE(readFile(errors).find("the loss is NaN"), std::string::npos)
      << readFile(errors);
  EXPECT_NE(access(saved.c_str(), F_OK), 0);
}

TEST_F(PipelineRunTest, ARankThatDiesEndsTheOther) {
  write(pipelinePlan(modelOf(1, 4, 2, 2)));
  for (size_t victim : {0u, 1u}) {
    unlink(log.c_str()); // else it begins with the lines of the run before
    auto process = startEndless();
    std::vector<pid_t> ranks = process->children();
    ASSERT_EQ(ranks.size(), 2u);
    auto since = Clock::now();
    kill(ranks[victim], SIGKILL);
    EXPECT_EQ(process->wait(), 2);
    expectGone(ranks, since);
    EXPECT_NE(process->output().find("rank " + std::to_string(victim)),
              std::string::npos)
        << process->output();
  }
}

TEST_F(PipelineRunTest, TheTraceHasWhatMovesAndWhoWaits) {
  write(pipelinePlan(modelOf(1, 4, 2, 2)));
  std::string trace = directory / "trace.json";
  auto arguments = training("3");
  arguments.insert(arguments.end(),
                   {"--trace", trace, "--link", "pipe=2000:1"});
  Process process(arguments, errors);
  ASSERT_EQ(process.wait(), 0) << process.output();
  json traced = json::parse(readFile(trace), nullptr, false);
  ASSERT_FALSE(traced.is_discarded());
  std::map<std::string, int> tracks, flights, waits;
  for (const json &event : traced["traceEvents"]) {
    std::string name = event["name"];
    if (event["ph"] == "M" && name == "thread_name")
      ++tracks[event["args"]["name"]];
    else if (event.value("cat", "") == "in flight")
      ++flights[name];
    else if (event.value("cat", "") == "waiting")
      ++waits[name];
    // A send over the link takes the link's time.
    if (event.value("cat", "") == "in flight" && name == "send")
      EXPECT_GE(event["dur"].get<double>(), 2000 - 1);
  }
  EXPECT_EQ(tracks["pipe 0 to 1"], 2);
  EXPECT_EQ(tracks["pipe 1 to 0"], 2);
  EXPECT_EQ(flights["send"], 3 * 8);
  EXPECT_EQ(flights["receive"], 3 * 8);
  EXPECT_GT(waits["waits for rank 0"] + waits["waits for rank 1"], 0);
}

// Forward and backward of the first stage take 4 ms, both of the second 8, a
// value 2 ms over the link: the first one there and the last one back, and
// eight microbatches of the second stage in between. Then the loss, in two
// rounds over the link. Nothing adds up along the way.
TEST_F(PipelineRunTest, ARehearsalTakesWhatThePlanSays) {
  plan::PlanT built = pipelinePlan(modelOf(1, 8, 4, 4));
  for (size_t p = 0; p < 2; ++p)
    for (auto &segment : built.programs[p]->segments) {
      bool isFirst = segment->name != "update";
      for (auto &command : segment->commands)
        if (command->body.AsCall() && isFirst)
          command->picoseconds = (p == 0 ? 4 : 8) * 1'000'000'000ull,
          isFirst = false;
    }
  write(built);
  auto loaded = loadPlan(plan);
  ASSERT_TRUE(loaded);
  std::string times = directory / "times.json";
  std::string text = timesText(plannedTimesOf(*loaded), *loaded, "planned");
  for (const char *place : {"\"at\": \"pipe=0\"", "\"at\": \"pipe=1\""})
    EXPECT_NE(text.find(place), std::string::npos) << text;
  writeFile(times, text.data(), text.size());
  auto read = readTimes(times, *loaded);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, plannedTimesOf(*loaded));
  Process process({plan, "--rehearse", times, "--steps", "3", "--log", log,
                   "--link", "pipe=2000:1000", "--json"},
                  errors);
  ASSERT_EQ(process.wait(), 0) << process.output();
  constexpr double planned =
      0.004 + 0.002 + 8 * 0.008 + 0.002 + 0.004 + 2 * 0.002;
  std::string said = process.output();
  EXPECT_NE(said.find(fmt::format("a step takes {:.2f} ms", 1e3 * planned)),
            std::string::npos)
      << said;
  auto lines = linesOf(log);
  ASSERT_EQ(lines.size(), 3u);
  for (const json &line : lines)
    EXPECT_GE(line["seconds"].get<double>(), planned - 1e-6);
}

} // namespace
} // namespace polyrank::runtime::test
