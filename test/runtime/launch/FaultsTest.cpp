// The faults that a run survives, those that end it, and what is left then.

#include "support/Sha256.h"
#include "support/safetensors/Safetensors.h"
#include "test/runtime/launch/RunFixture.h"

#include <algorithm>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

namespace polyrank::runtime::test {
namespace {

#define EXPECT_SAYS(text, part)                                                \
  EXPECT_NE((text).find(part), std::string::npos) << (text)

char stateOf(pid_t pid) {
  std::string text = readFile("/proc/" + std::to_string(pid) + "/stat");
  size_t end = text.rfind(')');
  return end == std::string::npos ? '-' : text[end + 2];
}

class FaultsTest : public RunTest {
protected:
  /// Returns the bytes that an undisturbed run of `steps` steps saves.
  std::string undisturbed(const std::string &steps) {
    EXPECT_EQ(runTraining(steps), 0) << readFile(errors);
    std::string bytes = readFile(saved);
    EXPECT_EQ(unlink(saved.c_str()), 0);
    unlink(log.c_str());
    return bytes;
  }
  size_t logged() const {
    std::string text = readFile(log);
    return std::count(text.begin(), text.end(), '\n');
  }
  /// Files in the test's directory.
  size_t files() const {
    size_t count = 0;
    for ([[maybe_unused]] auto &entry :
         std::filesystem::directory_iterator(directory / ""))
      ++count;
    return count;
  }
  plan::PlanT linear(int64_t dataAxis) {
    LinearModel model;
    model.data = dataAxis, model.batch = 8, model.weights = weights;
    return linearPlan(model);
  }
  static void stop(pid_t pid) {
    kill(pid, SIGSTOP);
    EXPECT_TRUE(eventually([&] { return stateOf(pid) == 'T'; }));
  }
};

void ignore(int number) { signal(number, SIG_IGN); }

void redirect(int descriptor, const char *path) {
  int file = open(path, O_WRONLY);
  dup2(file, descriptor);
  close(file);
}

TEST_F(FaultsTest, ARunOutlivesStopsAHangupIgnoredChildrenAndANeighbour) {
  makePlan(2, 2, 2);
  const std::string steps = "8000";
  std::string expected = undisturbed(steps);
  // A second job, with the same plan and data, that ends when it is told to.
  std::string neighbourLog = directory / "neighbour.jsonl";
  Process neighbour({plan, "--data", data, "--steps", "1000000000", "--log",
                     neighbourLog, "--save", directory / "other.safetensors"},
                    directory / "neighbour.txt");
  Process process(training(steps), errors, [] {
    ignore(SIGHUP);
    ignore(SIGCHLD);
    redirect(STDERR_FILENO, "/dev/full");
  });
  ASSERT_TRUE(eventually([&] { return logged() >= 3; }));
  std::vector<pid_t> ranks = process.children();
  ASSERT_EQ(ranks.size(), 4u);
  for (pid_t rank : ranks) {
    stop(rank);
    kill(process.pid, SIGHUP);
    usleep(1'000'000); // far longer than the interval of checks
    kill(rank, SIGCONT);
    size_t before = logged();
    ASSERT_TRUE(eventually([&] { return logged() > before + 10; }));
  }
  EXPECT_LT(logged(), 8000u) << "it ended before all ranks had been stopped";
  EXPECT_EQ(process.wait(), 0) << process.output();
  EXPECT_EQ(readFile(saved), expected);
  EXPECT_EQ(logged(), 1 + 8000u); // the start, and each step
  EXPECT_TRUE(eventually([&] { return readFile(neighbourLog).size() > 0; }));
  kill(neighbour.pid, SIGTERM);
  EXPECT_EQ(neighbour.wait(), 2) << neighbour.output();
}

TEST_F(FaultsTest, StandardErrorThatFailsEndsNothing) {
  makePlan(2, 2, 1);
  std::string expected = undisturbed("5");
  const std::pair<const char *, std::function<void()>> ways[] = {
      {"full", [] { redirect(STDERR_FILENO, "/dev/full"); }},
      {"closed", [] { close(STDERR_FILENO); }},
      {"all closed",
       [] {
         for (int descriptor : {0, 1, 2})
           close(descriptor);
       }},
      {"a pipe without a reader", [] {
         int ends[2];
         if (pipe(ends) == 0)
           dup2(ends[1], STDERR_FILENO);
         close(ends[0]);
         close(ends[1]);
       }}};
  for (auto &[name, prepare] : ways) {
    SCOPED_TRACE(name);
    Process process(training("5"), errors, prepare);
    EXPECT_EQ(process.wait(), 0) << process.output();
    EXPECT_EQ(readFile(saved), expected);
    // No message went into a file with that descriptor number.
    auto lines = linesOf(log);
    EXPECT_EQ(lines.size(), 5u);
    for (const nlohmann::json &line : lines)
      EXPECT_TRUE(line.contains("loss"));
    unlink(saved.c_str());
  }
}

TEST_F(FaultsTest, AReaderOfStandardErrorThatStallsStallsNothing) {
  makePlan(2, 1, 1);
  std::string expected = undisturbed("5");
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  fcntl(ends[1], F_SETFL, O_NONBLOCK);
  while (write(ends[1], "x", 1) == 1)
    ;
  fcntl(ends[1], F_SETFL, 0);
  Process process(training("5"), errors, [&] { dup2(ends[1], STDERR_FILENO); });
  EXPECT_TRUE(eventually([&] { return access(saved.c_str(), F_OK) == 0; }));
  EXPECT_EQ(process.wait(), 0);
  EXPECT_EQ(readFile(saved), expected);
  close(ends[0]);
  close(ends[1]);
}

TEST_F(FaultsTest, AReportThatCannotBePrintedIsAFailure) {
  makePlan(1, 1, 1);
  auto arguments = training("2");
  arguments.push_back("--json");
  for (bool full : {true, false}) {
    Process process(arguments, errors, [&] {
      if (full)
        redirect(STDOUT_FILENO, "/dev/full");
      else
        close(STDOUT_FILENO);
    });
    EXPECT_EQ(process.wait(), 2) << process.output();
    EXPECT_SAYS(process.output(), "cannot write to standard output: ");
    EXPECT_EQ(access(saved.c_str(), F_OK), 0); // the run itself was good
  }
}

TEST_F(FaultsTest, OutputsHoldTheSamplesOfTheStepsThatRan) {
  makePlan(2, 2, 2, true);
  std::string outputs = directory / "out.npz";
  auto run = [&](const std::string &steps) -> std::vector<int64_t> {
    Process process(
        {plan, "--inputs", data, "--outputs", outputs, "--steps", steps},
        errors);
    EXPECT_EQ(process.wait(), 0) << process.output();
    auto arrays = openNpz(outputs);
    if (!arrays)
      return {};
    std::vector<float> y(16 * targets);
    EXPECT_TRUE((*arrays)[0].read(0, 16 * targets,
                                  reinterpret_cast<std::byte *>(y.data())));
    for (int64_t s = 0; s < 16; ++s)
      for (int64_t j = 0; j < targets; ++j) {
        double expected = 0;
        for (int64_t i = 0; i < features; ++i)
          expected += double(x[s * features + i]) * w[j * features + i];
        EXPECT_NEAR(y[s * targets + j], expected, 1e-6);
      }
    return (*arrays)[0].shape();
  };
  EXPECT_EQ(run("2"), (std::vector<int64_t>{16, targets}));
  EXPECT_SAYS(readFile(errors), "16 of 32 samples (--steps 2)");
  EXPECT_EQ(run("100"), (std::vector<int64_t>{samples, targets}));
}

TEST_F(FaultsTest, AHangupThatIsIgnoredStaysIgnoredAndOthersEndTheRun) {
  makePlan(2, 1, 1);
  auto process = startEndless({}, [] { ignore(SIGHUP); });
  kill(process->pid, SIGHUP);
  size_t before = logged();
  EXPECT_TRUE(eventually([&] { return logged() > before + 100; }));
  kill(process->pid, SIGTERM);
  EXPECT_EQ(process->wait(), 2) << process->output();
  unlink(log.c_str());
  auto other = startEndless();
  kill(other->pid, SIGHUP);
  EXPECT_EQ(other->wait(), 2) << other->output();
}

TEST_F(FaultsTest, IgnoredChildrenDoNotKeepTheRunFromEnding) {
  makePlan(2, 1, 1);
  Process process(training("5"), errors, [] { ignore(SIGCHLD); });
  EXPECT_EQ(process.wait(), 0) << process.output();
}

TEST_F(FaultsTest, ASignalAfterTheLastStepLosesNoOutputs) {
  makePlan(2, 2, 1, true);
  std::string outputs = directory / "out.npz";
  Process process({plan, "--inputs", data, "--outputs", outputs}, errors);
  ASSERT_TRUE(eventually([&] { return process.children().size() == 4; }));
  std::vector<pid_t> ranks = process.children();
  stop(process.pid);
  // The ranks end on their own.
  for (pid_t rank : ranks)
    ASSERT_TRUE(eventually([&] { return stateOf(rank) == 'Z'; }));
  kill(process.pid, SIGINT);
  kill(process.pid, SIGCONT);
  EXPECT_EQ(process.wait(), 0) << process.output();
  EXPECT_TRUE(openNpz(outputs));
}

TEST_F(FaultsTest, ARunThatIsKilledLeavesNoUnfinishedFiles) {
  makePlan(2, 1, 1);
  size_t before = files();
  auto process = startEndless({"--profile", directory / "profile.txt"});
  EXPECT_EQ(files(), before + 2); // log and errors
  std::vector<pid_t> ranks = process->children();
  kill(process->pid, SIGKILL);
  process->wait();
  EXPECT_EQ(files(), before + 2);
}

TEST_F(FaultsTest, ADiskThatFillsUpMeanwhileHasKeptTheRoomForTheSave) {
  makePlan(1, 1, 1);
  std::string disk = directory / "disk";
  ASSERT_EQ(mkdir(disk.c_str(), 0700), 0);
  if (unshare(CLONE_NEWNS) != 0 ||
      mount("", "/", "", MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("none", disk.c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "may not mount a small disk";
  std::string weights = disk + "/w.safetensors", filler = disk + "/filler";
  // Weights without a tensor, which a run may replace.
  const std::string old("\2\0\0\0\0\0\0\0{}", 10);
  writeFile(weights, old.data(), old.size());
  Process process({plan, "--data", data, "--steps", "20000", "--log", log,
                   "--save", weights},
                  errors);
  ASSERT_TRUE(eventually([&] { return logged() >= 3; }));
  std::string all(1 << 16, 'x');
  writeFile(filler, all.data(), all.size());
  EXPECT_EQ(process.wait(), 0) << process.output();
  std::string trained = readFile(weights);
  EXPECT_GT(trained.size(), old.size());
  // If the disk is full from the start, no step is run. The replaced file has
  // left some space.
  writeFile(disk + "/rest", all.data(), all.size());
  Process another({plan, "--data", data, "--steps", "1", "--save", weights},
                  errors);
  EXPECT_EQ(another.wait(), 5) << another.output();
  EXPECT_SAYS(another.output(), "its file system has 0 left");
  EXPECT_EQ(readFile(weights), trained);
  umount(disk.c_str());
}

TEST_F(FaultsTest, APlanThatIsWrittenOverWhileTheRanksStartIsRefused) {
  makePlan(1, 1, 1);
  std::string first = readFile(plan);
  plan::PlanT changed = linear(1);
  changed.model = "renamed";
  ASSERT_TRUE(writePlan(directory / "other.plan", serialise(changed)));
  std::string second = readFile(directory / "other.plan");
  // On a busy machine a rank may have read its plan before it is stopped, and
  // then trains with it; another try finds one that had not loaded its
  // libraries yet.
  for (int attempt = 0; attempt < 100; ++attempt) {
    writeFile(plan, first.data(), first.size());
    Process process(training("1"), errors);
    auto isOver = [&] { return stateOf(process.pid) == 'Z'; };
    ASSERT_TRUE(
        eventually([&] { return !process.children().empty() || isOver(); }));
    auto ranks = process.children();
    for (pid_t rank : ranks)
      kill(rank, SIGSTOP);
    for (pid_t rank : ranks)
      ASSERT_TRUE(eventually([&] { return stateOf(rank) == 'T' || isOver(); }));
    writeFile(plan, second.data(), second.size());
    for (pid_t rank : ranks)
      kill(rank, SIGCONT);
    int status = process.wait();
    if (status == 0)
      continue;
    EXPECT_EQ(status, 2) << process.output();
    EXPECT_SAYS(process.output(), "rank 0 read another plan");
    return;
  }
  FAIL() << "each of the ranks had read its plan before it was stopped";
}

TEST_F(FaultsTest, APlanOfAnotherSha256IsRefused) {
  makePlan(2, 1, 1);
  std::string bytes = readFile(plan);
  Sha256 digest;
  digest.add({reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()});
  std::string right = digest.hex(), wrong = right;
  wrong[63] = wrong[63] == '0' ? '1' : '0';
  auto run = [&](std::string hash) {
    auto arguments = training("1");
    arguments.insert(arguments.end(), {"--sha256", hash});
    return Process(arguments, errors).wait();
  };
  EXPECT_EQ(run(right), 0) << readFile(errors);
  std::transform(right.begin(), right.end(), right.begin(), ::toupper);
  EXPECT_EQ(run(right), 0) << readFile(errors);
  EXPECT_EQ(run(wrong), 1);
  EXPECT_SAYS(readFile(errors), wrong);
  EXPECT_EQ(run("abc"), 1);
  EXPECT_SAYS(readFile(errors), "'abc' is not 64 hex digits");
}

TEST_F(FaultsTest, ARankThatStaysStoppedEndsTheRunAndIsNamed) {
  makePlan(2, 2, 1);
  auto process = startEndless({"--timeout", "1"});
  std::vector<pid_t> ranks = process->children();
  stop(ranks[2]);
  EXPECT_EQ(process->wait(), 3) << process->output();
  EXPECT_SAYS(
      process->output(),
      "no rank made progress for 1 s: rank 2 (data=1,tensor=0) is stopped");
  for (pid_t rank : ranks)
    EXPECT_NE(kill(rank, 0), 0);
}

TEST_F(FaultsTest, ARankThatNeverJoinsEndsTheRunAndIsNamed) {
  makePlan(2, 1, 1);
  auto arguments = training("5");
  arguments.insert(arguments.end(), {"--timeout", "1"});
  Process process(arguments, errors);
  ASSERT_TRUE(eventually([&] { return process.children().size() == 2; }));
  stop(process.children()[1]);
  EXPECT_EQ(process.wait(), 3) << process.output();
  EXPECT_SAYS(process.output(), "rank 1 (data=1,tensor=0) is stopped");
}

TEST_F(FaultsTest, ARankThatGoesRoundInCirclesEndsTheRunWithItsCommand) {
  plan::PlanT spinning = linear(1);
  spinning.programs[0]
      ->segments[updateSegment]
      ->commands.back()
      ->body.AsLaunch()
      ->kernel = 6;
  ASSERT_TRUE(writePlan(plan, serialise(spinning)));
  auto arguments = training("5");
  arguments.insert(arguments.end(), {"--timeout", "1"});
  Process process(arguments, errors);
  EXPECT_EQ(process.wait(), 3) << process.output();
  EXPECT_SAYS(process.output(), "no rank made progress for 1 s: rank 0 (data=0,"
                                "tensor=0) is in step 1, segment 'update', "
                                "optimizer");
}

} // namespace
} // namespace polyrank::runtime::test
