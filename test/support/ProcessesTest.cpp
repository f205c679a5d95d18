// Which processes are alive, also where the system tells little.

#include "support/Processes.h"

#include <csignal>
#include <functional>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace polyrank {
namespace {

/// Runs `body` in a process of its own. Returns the exit status.
int inChild(const std::function<int()> &body) {
  pid_t child = fork();
  if (child == 0)
    _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

ProcessName endedProcess() {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    ProcessName name = thisProcess();
    _exit(write(ends[1], &name, sizeof(name)) == sizeof(name) ? 0 : 1);
  }
  ProcessName name;
  EXPECT_EQ(read(ends[0], &name, sizeof(name)), ssize_t(sizeof(name)));
  waitpid(child, nullptr, 0);
  close(ends[0]);
  close(ends[1]);
  return name;
}

TEST(Processes, AProcessThatHasEndedIsDeadAndThisOneIsNot) {
  EXPECT_TRUE(isAlive(thisProcess()));
  EXPECT_FALSE(isAlive(endedProcess()));
  ProcessName later = thisProcess();
  later.startTime += 1; // one with this number, but not this one
  EXPECT_FALSE(isAlive(later));
}

TEST(Processes, WithoutADescriptorToLookWithNobodyIsDead) {
  ProcessName dead = endedProcess(), alive = thisProcess();
  EXPECT_EQ(inChild([&] {
              rlimit none{0, 0};
              setrlimit(RLIMIT_NOFILE, &none);
              return isAlive(alive) && isAlive(thisProcess()) && !isAlive(dead)
                         ? 0
                         : 1;
            }),
            0);
}

TEST(Processes, WithoutProcNobodyIsDead) {
  ProcessName dead = endedProcess(), alive = thisProcess();
  int status = inChild([&] {
    if (unshare(CLONE_NEWNS) != 0 ||
        mount("", "/", "", MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", "/proc", "tmpfs", 0, nullptr) != 0)
      return 77;
    return isAlive(alive) && isAlive(thisProcess()) && !isAlive(dead) ? 0 : 1;
  });
  if (status == 77)
    GTEST_SKIP() << "may not hide /proc";
  EXPECT_EQ(status, 0);
}

TEST(Processes, AStoppedOneIsToldFromOneThatSleepsAndOneThatHasEnded) {
  pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  while (processState(child) != 'S')
    usleep(1000);
  kill(child, SIGSTOP);
  waitpid(child, nullptr, WUNTRACED);
  EXPECT_EQ(processState(child), 'T');
  kill(child, SIGKILL);
  while (processState(child) != 'Z')
    usleep(1000);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(processState(child), '?');
}

} // namespace
} // namespace polyrank
