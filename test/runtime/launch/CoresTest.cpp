// The cores that a job takes.

#include "runtime/launch/Cores.h"

#include "runtime/launch/ControlGroups.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace polyrank::runtime::test {
namespace {

TEST(Cores, AListOfThemIsRead) {
  EXPECT_EQ(parseCoreList("0-2,5,8-8"), (std::vector<int>{0, 1, 2, 5, 8}));
  EXPECT_EQ(parseCoreList(""), std::vector<int>{});
}

int firstOf(const cpu_set_t &set) {
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set))
      return core;
  return -1;
}

// In a network namespace of its own, where no other run has taken anything.
TEST(Cores, TwoJobsTakeDifferentOnesAndAThirdNone) {
  pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWNET) != 0)
      _exit(77);
    cpu_set_t allowed;
    sched_getaffinity(0, sizeof(allowed), &allowed);
    int count = CPU_COUNT(&allowed);
    if (count < 2 || cpuQuota() < count)
      _exit(77);
    {
      auto one = chooseCores(1, 1, 0, Binding::Core, true);
      auto other = chooseCores(count - 1, 1, 0, Binding::Core, false);
      if (!one || !other || !one->alone || !other->alone)
        _exit(1);
      for (const cpu_set_t &set : other->ranks)
        if (CPU_COUNT(&set) != 1 || firstOf(set) == firstOf(one->ranks[0]))
          _exit(2);
      auto third = chooseCores(1, 1, 0, Binding::Core, false);
      if (!third || third->alone || !third->ranks.empty() ||
          third->note.find("other runs have taken") == std::string::npos)
        _exit(3);
      auto asked = chooseCores(1, 1, 0, Binding::Core, true);
      if (asked ||
          !asked.error().message.starts_with("--bind-to core: 1 rank x"))
        _exit(4);
      auto numa = chooseCores(1, 1, 0, Binding::Numa, true);
      if (!numa || numa->alone || CPU_COUNT(&numa->ranks[0]) < 1)
        _exit(5);
    }
    auto more = chooseCores(count, 2, 0, Binding::Core, false);
    if (!more || more->alone || more->note.find("may use") == std::string::npos)
      _exit(6);
    auto helped = chooseCores(1, 1, count, Binding::Core, false);
    if (!helped || helped->alone ||
        !helped->note.starts_with("1 rank x (1 thread and --comm-threads " +
                                  std::to_string(count) + ") need " +
                                  std::to_string(count + 1) + " cores") ||
        helped->note.find("takes time from what computes") == std::string::npos)
      _exit(8);
    auto fits = chooseCores(1, 1, count - 1, Binding::Core, true);
    if (!fits || !fits->alone || CPU_COUNT(&fits->ranks[0]) != count)
      _exit(9);
    fits->claims.clear();
    auto again = chooseCores(count, 1, 0, Binding::None, true);
    _exit(again && again->alone && again->ranks.empty() ? 0 : 7);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
    GTEST_SKIP() << "no network namespace, or one core";
  EXPECT_EQ(status, 0) << WEXITSTATUS(status);
}

} // namespace
} // namespace polyrank::runtime::test
