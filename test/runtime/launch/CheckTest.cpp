// polyrank-run --check: each check fails on a defect of its own.

#include "test/runtime/launch/RunFixture.h"

#include <algorithm>
#include <filesystem>

namespace polyrank::runtime::test {
namespace {

class CheckTest : public RunTest {
protected:
  struct Found {
    int status = 0;
    nlohmann::json report;

    /// The names of the failed checks.
    std::vector<std::string> wrong() const {
      std::vector<std::string> names;
      for (const auto &check : report["checks"])
        if (!check["holds"])
          names.push_back(check["check"]);
      return names;
    }
    std::vector<std::string> names() const {
      std::vector<std::string> names;
      for (const auto &check : report["checks"])
        names.push_back(check["check"]);
      return names;
    }
    std::string text(const std::string &name) const {
      for (const auto &check : report["checks"])
        if (check["check"] == name)
          return check["text"];
      return "";
    }
  };

  Found check(std::vector<std::string> more = {}) {
    auto arguments = training("5");
    arguments.insert(arguments.end(), {"--check", "--json", "--quiet"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    Process process(arguments, errors);
    Found found;
    found.status = process.wait();
    found.report = nlohmann::json::parse(process.output(), nullptr, false);
    EXPECT_FALSE(found.report.is_discarded()) << process.output();
    EXPECT_EQ(found.report["status"], found.status == 0 ? "ok" : "error");
    return found;
  }

  /// One check fails, with a message that has `text`.
  void expectWrong(const std::string &name, const std::string &text,
                   const std::vector<std::string> &more = {}) {
    Found found = check(more);
    EXPECT_EQ(found.status, 1) << name;
    EXPECT_EQ(found.wrong(), std::vector<std::string>{name}) << found.report;
    EXPECT_NE(found.text(name).find(text), std::string::npos) << found.report;
  }

  plan::PlanT model(int64_t microbatches = 1) {
    LinearModel linear;
    linear.data = 2, linear.batch = 8, linear.microbatches = microbatches;
    linear.weights = weights;
    return linearPlan(linear);
  }
  void write(const plan::PlanT &changed) {
    ASSERT_TRUE(writePlan(plan, serialise(changed)));
  }
};

TEST_F(CheckTest, SaysWhatItFoundAndRunsAndLeavesNothing) {
  makePlan(2, 1, 2);
  auto count = [&] {
    auto entries = std::filesystem::directory_iterator(directory / "");
    return std::distance(begin(entries), end(entries));
  };
  writeFile(errors, "", 0);
  auto before = count();
  Found found = check();
  EXPECT_EQ(found.status, 0) << found.report;
  EXPECT_EQ(found.names(), (std::vector<std::string>{
                               "plan", "options", "device", "cores", "weights",
                               "files", "data", "memory", "disk"}));
  EXPECT_EQ(count(), before);
  EXPECT_NE(found.text("plan").find("2 ranks (data=2,tensor=1)"),
            std::string::npos)
      << found.report;
  EXPECT_NE(found.text("data").find("5 steps of 8 samples are 1.25 epochs"),
            std::string::npos)
      << found.report;
  // The same for people.
  auto arguments = training("5");
  arguments.push_back("--check");
  Process process(arguments, errors);
  EXPECT_EQ(process.wait(), 0);
  EXPECT_NE(process.output().find("memory  ok    2 ranks need up to "),
            std::string::npos)
      << process.output();
}

TEST_F(CheckTest, AWrongPlanLeavesNothingElseToCheck) {
  std::string text = "no plan";
  writeFile(plan, text.data(), text.size());
  expectWrong("plan", "is not a plan");
  EXPECT_EQ(check().names().size(), 1u);
}

TEST_F(CheckTest, FindsACpuThatLacksAnInstruction) {
  plan::PlanT foreign = model();
  foreign.images[0]->requirements->features = {"sse2", "avx9000"};
  write(foreign);
  expectWrong("device", "need avx9000");
}

TEST_F(CheckTest, FindsTooFewCoresWhereTheyAreAskedFor) {
  makePlan(2, 8, 1); // more than one machine of these tests has, or not
  Found found = check({"--bind-to", "core"});
  bool enough = found.wrong().empty();
  if (!enough)
    EXPECT_EQ(found.wrong(), std::vector<std::string>{"cores"}) << found.report;
}

TEST_F(CheckTest, ReadsEveryByteOfTheWeights) {
  makePlan(2, 1, 1);
  w[5] += 1;
  std::vector<float> file(4, 0);
  file.insert(file.end(), w.begin(), w.end());
  writeFile(weights, file.data(), 4 * file.size());
  Found found = check();
  EXPECT_EQ(found.wrong(), std::vector<std::string>{"weights"});
  EXPECT_NE(found.text("weights").find("are not those that the plan was "
                                       "compiled with"),
            std::string::npos)
      << found.report;
  // Checks that need no weights still run.
  EXPECT_EQ(found.names(),
            (std::vector<std::string>{"plan", "options", "device", "cores",
                                      "weights", "data", "memory"}));
}

TEST_F(CheckTest, FindsANanAmongTheWeights) {
  w[5] = NAN;
  std::vector<float> file(4, 0);
  file.insert(file.end(), w.begin(), w.end());
  writeFile(weights, file.data(), 4 * file.size());
  makePlan(2, 1, 1);
  Found found = check();
  EXPECT_EQ(found.wrong(), std::vector<std::string>{"weights"});
  EXPECT_NE(found.text("weights").find("element [1,2] is NaN"),
            std::string::npos)
      << found.report;
  EXPECT_EQ(check({"--allow-nan"}).status, 0);
}

TEST_F(CheckTest, RefusesToWriteOverWhatIsRead) {
  makePlan(2, 1, 1);
  expectWrong("files", "is the same file as the data", {"--profile", data});
}

TEST_F(CheckTest, ReadsEveryValueOfTheData) {
  plan::PlanT strict = model();
  // Makes x an index: then values are integers in a range.
  plan::ArgumentT &x = *strict.programs[0]->arguments[inputArgument];
  x.index_limit = 3;
  x.dtype = plan::ElementType::I32;
  write(strict);
  auto writer = NpzWriter::create(data);
  ASSERT_TRUE(writer);
  std::vector<int32_t> indices(samples * features, 2);
  indices.back() = 3; // in the last sample, which five steps of 8 take once
  std::vector<int64_t> shape{samples, features}, other{samples, targets};
  ASSERT_TRUE(writer->add("x", ElementType::I32, shape,
                          std::as_bytes(std::span(indices))));
  ASSERT_TRUE(writer->add("labels", ElementType::F32, other,
                          std::as_bytes(std::span(t))));
  ASSERT_TRUE(writer->commit());
  expectWrong("data", "value 3 at element 95 (sample 31)");
}

TEST_F(CheckTest, FindsThatTheMachineHasTooLittleMemory) {
  plan::PlanT large = model();
  large.programs[0]->private_size = uint64_t(1) << 46; // 64 TiB a rank
  write(large);
  expectWrong("memory", "2 ranks need up to 128 TiB (64.0 TiB each, the arena "
                        "64.0 TiB), and ");

  // A run refuses it as well, before it starts a rank or touches an old log.
  std::string old = "{\"step\":1}\n";
  writeFile(log, old.data(), old.size());
  Process process(training("5"), errors);
  EXPECT_EQ(process.wait(), 1) << process.output();
  EXPECT_NE(process.output().find("or start it all the same with --no-check"),
            std::string::npos)
      << process.output();
  EXPECT_EQ(readFile(log), old);

  // With --no-check the ranks find out; no process can have so much.
  large.programs[0]->private_size = uint64_t(1) << 47;
  write(large);
  auto arguments = training("5");
  arguments.push_back("--no-check");
  Process forced(arguments, errors);
  EXPECT_EQ(forced.wait(), 2) << forced.output();
  EXPECT_EQ(forced.output().find("need up to"), std::string::npos)
      << forced.output();
}

TEST_F(CheckTest, FindsThatAFileCannotBeWritten) {
  makePlan(2, 1, 1);
  expectWrong("disk", "/nowhere", {"--profile", "/nowhere/profile.txt"});
  log = "/nowhere/log.jsonl";
  expectWrong("disk", "--log: cannot write '/nowhere/log.jsonl'");
}

TEST_F(CheckTest, SaysAllThatIsWrongAtOnce) {
  plan::PlanT foreign = model();
  foreign.images[0]->requirements->features = {"avx9000"};
  write(foreign);
  x.resize(3 * features), t.resize(3 * targets);
  auto writer = NpzWriter::create(data);
  ASSERT_TRUE(writer);
  std::vector<int64_t> shape{3, features};
  ASSERT_TRUE(
      writer->add("x", ElementType::F32, shape, std::as_bytes(std::span(x))));
  ASSERT_TRUE(writer->commit());
  saved = "/nowhere/w.safetensors";
  EXPECT_EQ(check().wrong(),
            (std::vector<std::string>{"device", "data", "disk"}));
}

} // namespace
} // namespace polyrank::runtime::test
