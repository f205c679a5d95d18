// Which ranks wait for which in a collective, and what is refused.

#include "test/runtime/comm/RankProcesses.h"

#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace polyrank::runtime::shm {
namespace {

using test::ShmJob;
using test::ShmRank;

/// Runs `body` in a process of its own. Returns the exit status.
int inChild(const std::function<int()> &body) {
  pid_t child = fork();
  if (child == 0)
    _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Liveness, ARankThatRunsAnotherProgramIsRefused) {
  ProgramDigest mine{1, 2, 0xab}, other{1, 2, 0xac};
  auto job = ShmJob::create({0}, 1, mine);
  ASSERT_TRUE(job);
  auto member = local::joinJob(job->control->descriptors(), 0);
  ASSERT_TRUE(member);
  std::vector<int> files;
  for (int file : job->memory->descriptors())
    files.push_back(dup(file)); // attaching takes them over
  auto refused = attach(files, **member, other);
  ASSERT_FALSE(refused);
  for (const char *part : {"rank 0 read another plan (hash 0102ac00",
                           "than its launcher (0102ab00", "start it again"})
    EXPECT_NE(refused.error().message.find(part), std::string::npos)
        << refused.error().message;
  EXPECT_TRUE(attach(files, **member, mine));
}

TEST(Liveness, ALimitOfOpenFilesIsRaisedAsFarAsTheSystemLets) {
  auto create = [](rlim_t soft, rlim_t hard) {
    return inChild([&] {
      rlimit limit{soft, hard};
      if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 77;
      auto memory = Memory::create({std::vector<uint64_t>(60)});
      if (memory)
        return 0;
      return memory.error().message.find("ulimit -n") != std::string::npos ? 1
                                                                           : 2;
    });
  };
  EXPECT_EQ(create(64, 512), 0);
  EXPECT_EQ(create(64, 100), 1);
}

/// A rank in a process of its own, which sums up what it did in one line.
struct RankProcess {
  RankProcess(const ShmJob &job, int rank,
              const std::function<std::string(Communicator &)> &body) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    result = ends[0];
    pid = fork();
    if (pid == 0) {
      auto joined = ShmRank::join(job, rank);
      std::string text =
          joined ? body(*joined->communicator) : joined.error().message;
      _exit(write(ends[1], text.data(), text.size()) >= 0 ? 0 : 1);
    }
    close(ends[1]);
  }
  std::string wait() {
    char text[4096];
    ssize_t length = read(result, text, sizeof(text));
    close(result);
    waitpid(pid, nullptr, 0);
    return std::string(text, length > 0 ? length : 0);
  }

  pid_t pid = -1;
  int result = -1;
};

std::string meet(Communicator &communicator, std::vector<int32_t> ranks) {
  auto group = communicator.createGroup(ranks);
  if (!group)
    return group.error().message;
  auto done = communicator.exchange(*group, 0);
  return done ? "" : done.error().message;
}

TEST(Liveness, ARankThatCrashesDumpsItsOwnArenaAlone) {
  auto job = ShmJob::create({4096, 4096, 4096});
  ASSERT_TRUE(job);
  // The memory of ranks outlives them.
  for (int other : {1, 2})
    EXPECT_EQ(
        RankProcess(*job, other,
                    [](Communicator &) { return std::string("registered"); })
            .wait(),
        "registered");
  RankProcess rank(*job, 0, [](Communicator &communicator) -> std::string {
    auto group = communicator.createGroup(std::vector<int32_t>{0, 1, 2});
    Collective collective{.reduction = Reduction::Sum, .group = *group};
    if (!communicator.check(collective))
      return "not reached";
    std::ifstream file("/proc/self/smaps");
    std::string dumped;
    bool arena = false;
    for (std::string line; std::getline(file, line);) {
      if (line.find('-') < line.find(' ') && line.find(':') > line.find(' '))
        arena = line.find("memfd:polyrank-arena") < line.size();
      if (arena && line.starts_with("VmFlags:"))
        dumped += line.find(" dd") < line.size() ? "-" : "+";
    }
    std::sort(dumped.begin(), dumped.end());
    return dumped;
  });
  EXPECT_EQ(rank.wait(), "+--");
}

TEST(Liveness, WhoWaitsForTheMemoryOfARankThatLeavesIsTold) {
  auto job = ShmJob::create({4096, 4096});
  ASSERT_TRUE(job);
  RankProcess rank(*job, 0, [](Communicator &communicator) -> std::string {
    auto group = communicator.createGroup(std::vector<int32_t>{0, 1});
    Collective collective{.reduction = Reduction::Sum, .group = *group};
    auto checked = communicator.check(collective);
    return checked ? "reached" : checked.error().message;
  });
  {
    auto member = local::joinJob(job->control->descriptors(), 1);
    ASSERT_TRUE(member);
  } // leaves without having registered
  std::string told = rank.wait();
  EXPECT_NE(told.find(") left the job early; rank 0 waits for its memory"),
            std::string::npos)
      << told;
}

/// Returns how often a process went to sleep.
int64_t sleepsOf(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("voluntary_ctxt_switches:"))
      return std::stoll(line.substr(line.find(':') + 1));
  return 0;
}

/// Starts `count` empty sums, and waits for the last.
std::string startMany(Communicator &communicator, std::vector<int32_t> ranks,
                      uint64_t count) {
  auto group = communicator.createGroup(ranks);
  if (!group)
    return group.error().message;
  Collective nothing{.reduction = Reduction::Sum, .group = *group};
  Request last;
  for (uint64_t n = 0; n < count; ++n) {
    auto request = communicator.start(nothing);
    if (!request)
      return request.error().message;
    last = *request;
  }
  auto done = communicator.wait(last);
  return done ? "" : done.error().message;
}

/// Rank 1 sleeps in {0, 1, 2} and is stopped. Its wait ends, and the others
/// then wait for it in `next`: in a barrier, or in the last of `started`
/// collectives.
void expectNoDeadlock(const std::vector<int32_t> &next, uint64_t started = 0) {
  auto job = ShmJob::create({0, 0, 0}, 1000);
  ASSERT_TRUE(job);
  JobControl &control = *job->control;
  int go[2];
  ASSERT_EQ(pipe(go), 0);
  auto both = [&](Communicator &communicator) -> std::string {
    char byte;
    if (communicator.rank() == 2 && read(go[0], &byte, 1) != 1)
      return "pipe";
    std::string first = meet(communicator, {0, 1, 2});
    bool goesOn = communicator.rank() < static_cast<int>(next.size());
    if (!first.empty() || !goesOn)
      return first;
    return started ? startMany(communicator, next, started)
                   : meet(communicator, next);
  };
  RankProcess zero(*job, 0, both), one(*job, 1, both), two(*job, 2, both);
  alarm(60);
  while (!control.report(0).waiting || !control.report(1).waiting)
    usleep(1000);
  kill(one.pid, SIGSTOP);
  waitpid(one.pid, nullptr, WUNTRACED);
  ASSERT_EQ(write(go[1], "x", 1), 1);
  while (control.report(1).waiting) // until what it slept for is over
    usleep(1000);
  // Rank 0 looks at the others each time that it wakes up.
  int64_t before = sleepsOf(zero.pid);
  while (sleepsOf(zero.pid) < before + 8 && control.health())
    usleep(1000);
  EXPECT_TRUE(control.report(0).waiting);
  kill(one.pid, SIGCONT);
  for (RankProcess *rank : {&zero, &one, &two})
    EXPECT_EQ(rank->wait(), "");
  alarm(0);
  close(go[0]);
  close(go[1]);
}

// The barrier of the job is no collective, but ranks wait for each other by it.
TEST(Liveness, ACircleOfACollectiveAndTheJobsBarrierIsFound) {
  auto job = ShmJob::create({0, 0, 0}, 1000);
  ASSERT_TRUE(job);
  RankProcess zero(
      *job, 0,
      [](Communicator &communicator) { return meet(communicator, {0, 2}); }),
      one(*job, 1,
          [](Communicator &communicator) {
            auto met = communicator.job().barrier();
            return met ? "" : met.error().message;
          }),
      two(*job, 2, [](Communicator &communicator) {
        return meet(communicator, {1, 2});
      });
  alarm(60);
  for (RankProcess *rank : {&zero, &one, &two}) {
    std::string text = rank->wait();
    for (const char *part :
         {"ranks wait for each other:",
          "rank 1 waits at a barrier (step 0, command 0) of all ranks",
          "rank 2 waits at value 0 (step 0, command 0) in the group of ranks "
          "1, 2"})
      EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  alarm(0);
}

TEST(Liveness, WhoWaitsForWhomAndForHowLongIsPublished) {
  auto job = ShmJob::create({0, 0, 0}, 1000);
  ASSERT_TRUE(job);
  JobControl &control = *job->control;
  int go[2];
  ASSERT_EQ(pipe(go), 0);
  auto main = [&](Communicator &communicator) -> std::string {
    char byte;
    if (communicator.rank() == 1 && read(go[0], &byte, 1) != 1)
      return "pipe";
    return meet(communicator, {0, 1, 2});
  };
  EXPECT_EQ(control.waitOf(0), RankWait());
  RankProcess zero(*job, 0, main), one(*job, 1, main), two(*job, 2, main);
  alarm(60);
  RankWait forOne{RankWait::What::Starts, {1}};
  while (control.waitOf(0) != forOne || control.waitOf(2) != forOne)
    usleep(1000);
  EXPECT_EQ(control.waitOf(1), RankWait());
  EXPECT_EQ(control.awaitedNanoseconds(1), 0u); // noted when it is over
  usleep(20'000);
  ASSERT_EQ(write(go[1], "x", 1), 1);
  for (RankProcess *rank : {&zero, &one, &two})
    EXPECT_EQ(rank->wait(), "");
  alarm(0);
  EXPECT_GE(control.awaitedNanoseconds(1), 2 * 20'000'000u);
  EXPECT_EQ(control.awaitedNanoseconds(0), 0u);
  EXPECT_EQ(control.awaitedNanoseconds(2), 0u);
  EXPECT_EQ(control.waitOf(0), RankWait());
  close(go[0]);
  close(go[1]);
}

TEST(Liveness, ARankThatHasNotWokenUpYetIsNotADeadlock) {
  expectNoDeadlock({0, 1});
  expectNoDeadlock({0, 1, 2});
  // The last of these has the slot of what rank 1 has slept for.
  expectNoDeadlock({0, 1, 2}, ringSlots);
}

} // namespace
} // namespace polyrank::runtime::shm
