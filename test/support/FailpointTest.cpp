// The effect of POLYRANK_FAIL, in a process of its own each time.

#include "support/Failpoint.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <gtest/gtest.h>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace polyrank {
namespace {

#ifdef POLYRANK_FAILPOINTS

struct Process {
  const char *rank = nullptr, *attempt = nullptr; // variables
};

/// Returns the results of the first hits of the point "here" in a process with
/// this variable; or, if the process ends, only 1000 + its exit status, or
/// minus the signal that ended it.
std::vector<int> hits(const std::string &fail, const Process &process = {"1"},
                      const char *name = "here", int count = 3) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
    if (freopen("/dev/null", "w", stderr) == nullptr)
      _exit(99);
    setenv("POLYRANK_FAIL", fail.c_str(), 1);
    for (auto [variable, value] : {std::pair("POLYRANK_RANK", process.rank),
                                   {"POLYRANK_ATTEMPT", process.attempt}})
      value ? setenv(variable, value, 1) : unsetenv(variable);
    std::vector<int> found;
    for (int hit = 0; hit < count; ++hit)
      found.push_back(failpoint(name));
    ssize_t all = static_cast<ssize_t>(found.size() * sizeof(int));
    _exit(write(ends[1], found.data(), size_t(all)) == all ? 77 : 98);
  }
  close(ends[1]);
  int status = 0;
  waitpid(child, &status, 0);
  std::vector<int> found(count);
  ssize_t got = read(ends[0], found.data(), found.size() * sizeof(int));
  close(ends[0]);
  if (WIFSIGNALED(status))
    return {-WTERMSIG(status)};
  if (WEXITSTATUS(status) != 77)
    return {1000 + WEXITSTATUS(status)};
  EXPECT_EQ(got, ssize_t(found.size() * sizeof(int)));
  return found;
}

using Hits = std::vector<int>;

TEST(Failpoint, FailsTheHitThatItNames) {
  EXPECT_EQ(hits("here:action=eio"), (Hits{EIO, 0, 0}));
  EXPECT_EQ(hits("here:hit=2:action=enospc"), (Hits{0, ENOSPC, 0}));
  EXPECT_EQ(hits("here:hit=0:action=nan"),
            (Hits{failWithNan, failWithNan, failWithNan}));
  EXPECT_EQ(hits("elsewhere:action=eio"), (Hits{0, 0, 0}));
  EXPECT_EQ(hits(""), (Hits{0, 0, 0}));
}

TEST(Failpoint, IsForOneRankOrEachAndForTheLauncherOnlyByName) {
  EXPECT_EQ(hits("here:rank=1:action=eio")[0], EIO);
  EXPECT_EQ(hits("here:rank=2:action=eio")[0], 0);
  EXPECT_EQ(hits("here:action=eio", {})[0], 0);
  EXPECT_EQ(hits("here:rank=launcher:action=eio", {})[0], EIO);
  EXPECT_EQ(hits("here:rank=launcher:action=eio")[0], 0);
}

TEST(Failpoint, IsForOneStartOfTheRanksOrEach) {
  EXPECT_EQ(hits("here:action=eio", {"1", "1"})[0], EIO);
  EXPECT_EQ(hits("here:action=eio", {"1", "2"})[0], 0);
  EXPECT_EQ(hits("here:attempt=2:action=eio", {"1", "2"})[0], EIO);
  EXPECT_EQ(hits("here:attempt=0:action=eio", {"1", "2"})[0], EIO);
}

TEST(Failpoint, SeveralCountTheirHitsEach) {
  EXPECT_EQ(hits("here:hit=3:action=eio;here:hit=1:action=enospc"),
            (Hits{ENOSPC, 0, EIO}));
}

TEST(Failpoint, EndsTheProcess) {
  EXPECT_EQ(hits("here:action=kill"), (Hits{-SIGKILL}));
  EXPECT_EQ(hits("here:action=abort"), (Hits{-SIGABRT}));
  EXPECT_EQ(hits("here:action=segv"), (Hits{-SIGSEGV}));
  EXPECT_EQ(hits("here:action=exit"), (Hits{1000}));
}

TEST(Failpoint, WhatIsNotUnderstoodEndsTheProcess) {
  for (const char *wrong :
       {"here", "here:action=explode", "here:hit=x:action=eio",
        "here:rank=:action=eio", "here:when=2:action=eio",
        "here:action=delay=soon", ":action=eio", "here:hit=2x:action=eio"})
    EXPECT_EQ(hits(wrong), (Hits{1001})) << wrong;
}

#else

TEST(Failpoint, IsNothingInABuildWithout) {
  static_assert(failpoint("here") == 0);
}

#endif

} // namespace
} // namespace polyrank
