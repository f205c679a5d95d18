// The conformance suite of jobs. A new implementation is a line at the end.

#include "runtime/job/local/LocalJob.h"
#include "support/Futex.h"
#include "test/runtime/job/JobUnderTest.h"

#include <csignal>
#include <sys/mman.h>

namespace polyrank::runtime::test {
namespace {

std::string textOf(const Result<void> &result) {
  return result ? "" : result.error().message;
}

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

/// Ends the test, should a rank hang.
class JobTest : public testing::TestWithParam<JobUnderTest> {
protected:
  JobTest() { alarm(60); }
  ~JobTest() override { alarm(0); }

  std::unique_ptr<JobControl> create(int ranks) {
    auto job = GetParam().create(ranks);
    EXPECT_TRUE(job);
    return *std::move(job);
  }
  std::unique_ptr<JobMember> join(const JobControl &job, int rank) {
    auto member = GetParam().join(job.descriptors(), rank);
    EXPECT_TRUE(member) << member.error().message;
    return *std::move(member);
  }
  using Main = std::function<std::string(JobMember &)>;
  std::unique_ptr<RankOfJob> start(const JobControl &job, int rank,
                                   const Main &main) {
    return std::make_unique<RankOfJob>(GetParam(), job, rank, main);
  }
};

TEST_P(JobTest, TheLauncherSeesWhereARankIs) {
  auto job = create(2);
  EXPECT_EQ(job->report(0).phase, RankPhase::Starting);
  EXPECT_EQ(job->worldSize(), 2);
  {
    auto member = join(*job, 1);
    EXPECT_EQ(member->rank(), 1);
    EXPECT_EQ(member->worldSize(), 2);
    member->setProgress(12, 34);
    member->setOperation(56);
    RankReport report = job->report(1);
    EXPECT_EQ(report.phase, RankPhase::Running);
    EXPECT_EQ(report.pid, getpid());
    EXPECT_EQ(report.step, 12u);
    EXPECT_EQ(report.command, 34u);
    EXPECT_EQ(report.operation, 56u);
    EXPECT_EQ(report, member->report(1));
    EXPECT_EQ(report.issued, (Position{12, 34}));
    // The device is behind, and then not any more.
    member->deviceWord() = Position{12, 30}.word();
    report = job->report(1);
    EXPECT_EQ((Position{report.step, report.command}), (Position{12, 30}));
    EXPECT_EQ(report.issued, (Position{12, 34}));
    member->deviceWord() = Position{12, 35}.word();
    EXPECT_EQ(job->report(1).command, 34u);
    member->beat();
    EXPECT_NE(job->report(1), report);
  }
  EXPECT_EQ(job->report(1).phase, RankPhase::Left);
  EXPECT_EQ(job->report(0).phase, RankPhase::Starting);
}

TEST_P(JobTest, CommandsOfAnotherProgramAreProgressButNoPosition) {
  auto job = create(1);
  auto member = join(*job, 0);
  member->setProgress(3, 7);
  RankReport before = job->report(0);
  member->setBeside(true);
  member->setProgress(9, 9);
  RankReport beside = job->report(0);
  EXPECT_TRUE(beside.isBeside);
  EXPECT_EQ(beside.step, 3u);
  EXPECT_EQ(beside.command, 7u);
  EXPECT_GT(beside.beats, before.beats);
  member->setBeside(false);
  member->setProgress(4, 1);
  EXPECT_FALSE(job->report(0).isBeside);
  EXPECT_EQ(job->report(0).step, 4u);
}

TEST_P(JobTest, ARankThatJoinsTwiceIsRefused) {
  auto job = create(2);
  auto member = join(*job, 0);
  auto again = GetParam().join(job->descriptors(), 0);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().message, "rank 0 was started twice");
  member.reset();
  EXPECT_FALSE(GetParam().join(job->descriptors(), 0)) << "after it has left";
  EXPECT_TRUE(GetParam().join(job->descriptors(), 1));
}

TEST_P(JobTest, ARankThatTheJobDoesNotHaveIsRefused) {
  auto job = create(2);
  for (int rank : {-1, 2, 1000}) {
    auto refused = GetParam().join(job->descriptors(), rank);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message,
              "rank " + std::to_string(rank) +
                  " is none of the 2 ranks of the job");
  }
}

TEST_P(JobTest, RanksThatAreStoppedEndAfterTheSameStep) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    auto job = create(3);
    Main main = [](JobMember &member) -> std::string {
      uint64_t step = 0;
      while (member.mayBegin(step + 1)) {
        ++step;
        if (step % 64 == uint64_t(member.rank()))
          usleep(10); // so that now one is ahead, now another
      }
      if (!member.isClosedBefore(step + 1) || member.isClosedBefore(step))
        return "closed at another step";
      return std::to_string(step);
    };
    auto zero = start(*job, 0, main), one = start(*job, 1, main),
         two = start(*job, 2, main);
    while (job->report(2).phase == RankPhase::Starting)
      usleep(100);
    usleep(1000 * attempt);
    uint64_t last = job->stopSteps();
    for (auto *rank : {&zero, &one, &two})
      EXPECT_EQ((*rank)->wait(), std::to_string(last));
    EXPECT_EQ(job->stopSteps(), last);
  }
}

TEST_P(JobTest, ABarrierIsOverOnceAllHaveCome) {
  constexpr int ranks = 5;
  constexpr uint32_t rounds = 400;
  auto *memory = static_cast<std::atomic<uint32_t> *>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
           -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  auto job = create(ranks);
  std::vector<std::unique_ptr<RankOfJob>> all;
  for (int rank = 0; rank < ranks; ++rank)
    all.push_back(start(*job, rank, [&](JobMember &member) -> std::string {
      for (uint32_t round = 1; round <= rounds; ++round) {
        if (round % ranks == uint32_t(member.rank()))
          usleep(50); // so that now one is late, now another
        memory->fetch_add(1);
        if (auto met = member.barrier(); !met)
          return met.error().message;
        if (memory->load() < round * ranks)
          return "not all had come to barrier " + std::to_string(round);
        if (auto met = member.barrier(); !met) // before the next one counts
          return met.error().message;
      }
      return "";
    }));
  for (auto &rank : all)
    EXPECT_EQ(rank->wait(), "");
  EXPECT_EQ(memory->load(), rounds * ranks);
  munmap(memory, 4096);
}

TEST_P(JobTest, WhoIsMissingInABarrierIsSaidUntilItIsOver) {
  auto job = create(3);
  Main main = [](JobMember &member) { return textOf(member.barrier()); };
  auto zero = start(*job, 0, main), one = start(*job, 1, main);
  RankWait forTwo{RankWait::What::Barrier, {2}};
  while (job->waitOf(0) != forTwo || job->waitOf(1) != forTwo)
    usleep(1000);
  EXPECT_TRUE(job->report(0).waiting);
  EXPECT_EQ(job->waitOf(2), RankWait());
  kill(one->pid, SIGSTOP);
  waitpid(one->pid, nullptr, WUNTRACED);
  auto two = start(*job, 2, main);
  EXPECT_EQ(two->wait(), "");
  EXPECT_EQ(job->waitOf(1), RankWait()) << "it has only not woken up yet";
  EXPECT_FALSE(job->report(1).waiting);
  kill(one->pid, SIGCONT);
  EXPECT_EQ(zero->wait(), "");
  EXPECT_EQ(one->wait(), "");
}

TEST_P(JobTest, ABarrierWithARankThatLeavesOrDiesFailsAndNamesIt) {
  for (bool dies : {false, true}) {
    auto job = create(3);
    Main main = [](JobMember &member) { return textOf(member.barrier()); };
    auto zero = start(*job, 0, main), one = start(*job, 1, main);
    auto two = start(*job, 2, [&](JobMember &) -> std::string {
      if (dies)
        raise(SIGKILL);
      return "";
    });
    std::string text = zero->wait();
    EXPECT_TRUE(contains(text, "rank 2 (process " + std::to_string(two->pid) +
                                   ") " +
                                   (dies ? "died" : "left the job early")))
        << text;
    EXPECT_TRUE(contains(text, " waits at a barrier (step 0, command 0)"))
        << text;
    EXPECT_EQ(one->wait(), text);
    EXPECT_EQ(textOf(job->health()), text);
    two->wait();
  }
}

TEST_P(JobTest, TheFirstAbortEndsAllThatWait) {
  auto job = create(3);
  EXPECT_EQ(textOf(job->health()), "");
  Main main = [](JobMember &member) { return textOf(member.barrier()); };
  auto zero = start(*job, 0, main);
  while (!job->report(0).waiting)
    usleep(1000);
  auto one = start(*job, 1, [](JobMember &member) -> std::string {
    member.abort("the disk is on fire");
    member.abort("and the house");
    return textOf(member.barrier());
  });
  EXPECT_EQ(zero->wait(), "rank 1: the disk is on fire");
  EXPECT_EQ(one->wait(), "rank 1: the disk is on fire");
  job->abort("interrupted");
  EXPECT_EQ(textOf(job->health()), "rank 1: the disk is on fire");
  auto late = join(*job, 2);
  EXPECT_EQ(textOf(late->health()), "rank 1: the disk is on fire");
  EXPECT_EQ(late->fail("rank 2 came late").message,
            "rank 1: the disk is on fire");
}

TEST_P(JobTest, AnAbortByTheLauncherEndsABarrier) {
  auto job = create(2);
  auto zero = start(*job, 0,
                    [](JobMember &member) { return textOf(member.barrier()); });
  while (!job->report(0).waiting)
    usleep(1000);
  job->abort("interrupted by the user");
  EXPECT_EQ(zero->wait(), "interrupted by the user");
}

TEST_P(JobTest, AMessageThatIsTooLongIsCut) {
  auto job = create(1);
  job->abort(std::string(100'000, 'x'));
  std::string text = textOf(job->health());
  EXPECT_GT(text.size(), 1000u);
  EXPECT_EQ(text, std::string(text.size(), 'x'));
}

TEST_P(JobTest, AnAbortCallsWhatIsRegisteredInThisProcess) {
  auto job = create(1);
  auto member = join(*job, 0);
  int first = 0, second = 0, members = 0;
  Job::AbortHook kept = job->onAbort([&] { ++first; });
  Job::AbortHook ofMember = member->onAbort([&] { ++members; });
  {
    Job::AbortHook gone = job->onAbort([&] { ++second; });
    Job::AbortHook moved = std::move(kept);
    kept = std::move(moved);
  }
  job->abort("enough");
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 0);
  EXPECT_EQ(members, 0);
  member->abort("enough");
  EXPECT_EQ(members, 1);
  static_cast<void>(member->fail("enough"));
  EXPECT_EQ(members, 2);
}

TEST_P(JobTest, RanksEndWithTheirLauncher) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  pid_t launcher = fork();
  if (launcher == 0) {
    auto job = create(2);
    if (fork() == 0) {
      auto member = join(*job, 0);
      std::string text = textOf(member->barrier()); // rank 1 never comes
      _exit(write(ends[1], text.data(), text.size()) > 0 ? 0 : 1);
    }
    while (!job->report(0).waiting)
      usleep(1000);
    _exit(0);
  }
  close(ends[1]);
  char text[1000] = {};
  EXPECT_GT(read(ends[0], text, sizeof(text) - 1), 0);
  waitpid(launcher, nullptr, 0);
  EXPECT_TRUE(contains(text, "the launcher (process " +
                                 std::to_string(launcher) +
                                 ") ended before its ranks"))
      << text;
  close(ends[0]);
}

TEST_P(JobTest, TheLauncherSeesWhatACommunicatorSleepsFor) {
  auto job = create(70);
  auto member = join(*job, 69), other = join(*job, 3);
  EXPECT_EQ(job->waitOf(69), RankWait());
  int blockers[] = {0, 3, 63, 64, 68};
  member->beginWait(5, RankWait::What::Starts, blockers);
  EXPECT_EQ(job->waitOf(69),
            (RankWait{RankWait::What::Starts, {0, 3, 63, 64, 68}}));
  EXPECT_TRUE(job->report(69).waiting);
  int fewer[] = {64};
  member->beginWait(5, RankWait::What::Starts, fewer);
  EXPECT_EQ(job->waitOf(69), (RankWait{RankWait::What::Starts, {64}}));
  other->endWait(69, 4); // of an older wait
  EXPECT_TRUE(job->report(69).waiting);
  other->endWait(69, 5);
  EXPECT_EQ(job->waitOf(69), RankWait());
  EXPECT_FALSE(job->report(69).waiting);
  member->endWait(69, 5); // has nothing left to end
  member->beginWait(6, RankWait::What::Work, {});
  EXPECT_EQ(job->waitOf(69), (RankWait{RankWait::What::Work, {}}));
  member->endWait(69, 6);
  EXPECT_EQ(job->waitOf(69), RankWait());
  EXPECT_EQ(job->waitOf(3), RankWait());
}

TEST_P(JobTest, HowLongOthersHaveWaitedForARankAddsUp) {
  auto job = create(3);
  auto zero = join(*job, 0), one = join(*job, 1);
  zero->addAwaited(2, 30);
  one->addAwaited(2, 4);
  one->addAwaited(0, 500);
  EXPECT_EQ(job->awaitedNanoseconds(2), 34u);
  EXPECT_EQ(job->awaitedNanoseconds(1), 0u);
  EXPECT_EQ(job->awaitedNanoseconds(0), 500u);
}

TEST_P(JobTest, WhoComesLastToABarrierWasAwaited) {
  auto job = create(3);
  Main main = [](JobMember &member) { return textOf(member.barrier()); };
  auto zero = start(*job, 0, main), two = start(*job, 2, main);
  while (!job->report(0).waiting || !job->report(2).waiting)
    usleep(1000);
  usleep(20'000);
  EXPECT_EQ(job->awaitedNanoseconds(1), 0u); // noted when it is over
  auto one = start(*job, 1, main);
  for (auto *rank : {&zero, &one, &two})
    EXPECT_EQ((*rank)->wait(), "");
  EXPECT_GE(job->awaitedNanoseconds(1), 2 * 20'000'000u);
  EXPECT_EQ(job->awaitedNanoseconds(0), 0u);
  EXPECT_EQ(job->awaitedNanoseconds(2), 0u);
}

TEST_P(JobTest, WhetherARankIsThereIsKnown) {
  using Presence = JobMember::Presence;
  auto job = create(2);
  auto zero = join(*job, 0);
  EXPECT_EQ(zero->presenceOf(1), Presence::Expected);
  int go[2];
  ASSERT_EQ(pipe(go), 0);
  auto one = start(*job, 1, [&](JobMember &) -> std::string {
    char byte;
    return read(go[0], &byte, 1) == 1 ? "" : "pipe";
  });
  while (zero->presenceOf(1) == Presence::Expected)
    usleep(1000);
  EXPECT_EQ(zero->presenceOf(1), Presence::Present);
  kill(one->pid, SIGKILL);
  while (zero->presenceOf(1) == Presence::Present)
    usleep(1000);
  EXPECT_EQ(zero->presenceOf(1), Presence::Dead);
  one->wait();
  EXPECT_EQ(zero->presenceOf(1), Presence::Dead);
  EXPECT_EQ(zero->describeAbsence(1),
            "rank 1 (process " + std::to_string(one->pid) + ") died");
  EXPECT_EQ(textOf(zero->checkLauncher()), "");
  close(go[0]);
  close(go[1]);
}

INSTANTIATE_TEST_SUITE_P(
    , JobTest,
    testing::Values(JobUnderTest{
        "Local", [](int ranks) { return local::createJob({.ranks = ranks}); },
        local::joinJob}),
    [](const auto &instance) { return instance.param.name; });

} // namespace
} // namespace polyrank::runtime::test
