// The work of communication threads, and their end.

#include "test/runtime/comm/Sum.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <limits>
#include <memory>
#include <sched.h>
#include <xmmintrin.h>

namespace polyrank::runtime::test {
namespace {

/// Fills the inputs, so that each sum over two ranks is 2 (e % 100) + 1.
void fill(Communicator &communicator, Sum &sum) {
  for (int64_t e = 0; e < sum.transfer.inner; ++e)
    sum.input[e] = static_cast<float>(e % 100 + communicator.rank());
}

/// Returns true if the last output arrives within ten seconds, without a wait.
bool comesByItself(const Sum &sum) {
  int64_t last = sum.transfer.inner - 1;
  auto expected = static_cast<float>(2 * (last % 100) + 1);
  for (int n = 0; n < 100'000; ++n) {
    if (*const_cast<volatile float *>(&sum.output[last]) == expected)
      return true;
    usleep(100);
  }
  return false;
}

void expectAllWell(int ranks, const RankMain &main) {
  for (const RankOutcome &outcome :
       runOverShm({.ranks = ranks, .sharedSize = 32 << 20}, main, "")) {
    EXPECT_EQ(outcome.text, "");
    EXPECT_EQ(outcome.signal, 0);
  }
}

// If only one rank has communication threads, they do all the work.
TEST(CommThreads, WorkWhileNobodyWaits) {
  for (int helped : {1, 2}) {
    Flags flags;
    expectAllWell(2, [&](Communicator &communicator) -> std::string {
      if (communicator.rank() < helped)
        communicator.setCommThreads(2);
      for (int round = 1; round <= 20; ++round) {
        Sum sum(communicator, 400'000);
        fill(communicator, sum);
        std::fill_n(sum.output, sum.transfer.inner, -1.0f);
        auto request = communicator.start(sum.collective);
        if (!request)
          return request.error().message;
        if (!comesByItself(sum))
          return "nobody worked";
        ++flags.words[0];
        flags.await(0, 2 * round); // only now may anybody wait
        auto done = communicator.wait(*request);
        if (!done)
          return done.error().message;
        for (int64_t e = 0; e < sum.transfer.inner; ++e)
          if (sum.output[e] != static_cast<float>(2 * (e % 100) + 1))
            return "element " + std::to_string(e) + " is wrong";
        if (helped == 1 && done->completion().lastFinisher != 0)
          return "it says that a rank without threads did the last of it";
        ++flags.words[1];
        flags.await(1, 2 * round);
      }
      return "";
    });
  }
}

TEST(CommThreads, DoNothingOnceTheyAreStopped) {
  Flags flags;
  expectAllWell(2, [&](Communicator &communicator) -> std::string {
    communicator.setCommThreads(3);
    Sum sum(communicator, 400'000);
    fill(communicator, sum);
    auto first = communicator.start(sum.collective);
    if (!first || !comesByItself(sum) || !communicator.wait(*first))
      return "nobody worked";
    communicator.setCommThreads(0);
    ++flags.words[0];
    flags.await(0, 2);
    std::fill_n(sum.output, sum.transfer.inner, -1.0f);
    ++flags.words[1];
    flags.await(1, 2);
    auto second = communicator.start(sum.collective);
    ++flags.words[2];
    flags.await(2, 2);
    usleep(30'000);
    if (!second || sum.output[0] != -1)
      return "somebody worked";
    ++flags.words[3];
    flags.await(3, 2);
    auto done = communicator.wait(*second);
    if (!done)
      return done.error().message;
    return comesByItself(sum) ? "" : "the wait did not work either";
  });
}

// Like the thread that has created them, or has started the operation:
// otherwise bits would depend on which thread sums.
TEST(CommThreads, FlushDenormalsAsTheRankDoes) {
  for (auto run : {runOverShm, runOverMachines<2>})
    // Of few elements, who hears of the last start sums all.
    for (auto [elements, flushes] : {std::pair<int64_t, bool>{100, false},
                                     {100, true},
                                     {400'000, false},
                                     {400'000, true}}) {
      Flags flags;
      auto outcomes = run(
          {.ranks = 2, .sharedSize = 32 << 20},
          [&, elements = elements,
           flushes = flushes](Communicator &communicator) -> std::string {
            constexpr unsigned both = 1u << 15 | 1u << 6;
            _mm_setcsr(flushes ? _mm_getcsr() | both : _mm_getcsr() & ~both);
            communicator.setCommThreads(2);
            Sum sum(communicator, elements);
            fill(communicator, sum);
            for (int64_t e = 0; e + 1 < sum.transfer.inner; ++e)
              sum.input[e] = std::numeric_limits<float>::denorm_min();
            auto request = communicator.start(sum.collective);
            if (!request || !comesByItself(sum))
              return "nobody worked";
            ++flags.words[0];
            flags.await(0, 2);
            if (!communicator.wait(*request))
              return "failed";
            for (int64_t e = 0; e + 1 < sum.transfer.inner; ++e) {
              uint32_t bits;
              std::memcpy(&bits, &sum.output[e], sizeof(bits));
              if (bits != (flushes ? 0u : 2u))
                return "a sum of denormals has bits " + std::to_string(bits);
            }
            return "";
          },
          "");
      for (const RankOutcome &outcome : outcomes)
        EXPECT_EQ(outcome.text, "");
    }
}

// The rank is killed at some moment during its threads' work, or after it; the
// other ranks have two operations in flight.
TEST(CommThreads, ARankThatDiesWhileTheyWorkIsNamedToAllOthers) {
  for (useconds_t after : {0u, 200u, 1000u, 3000u}) {
    Flags flags;
    auto outcomes = runWithCommThreads(
        {.ranks = 3, .sharedSize = 64 << 20},
        [&](Communicator &communicator) -> std::string {
          Sum sum(communicator, 4'000'000);
          if (communicator.rank() == 1) {
            flags.await(0, 2);
            (void)communicator.start(sum.collective);
            usleep(after);
            raise(SIGKILL);
          }
          auto first = communicator.start(sum.collective);
          ++flags.words[0];
          auto second = communicator.start(sum.collective);
          for (auto &request : {first, second}) {
            if (!request)
              return request.error().message;
            if (auto done = communicator.wait(*request); !done)
              return done.error().message;
          }
          return "went on without rank 1";
        },
        "");
    EXPECT_EQ(outcomes[1].signal, SIGKILL);
    expectErrorEverywhere(outcomes, {"rank 1", "died"}, 1);
  }
}

// The wait fails at once, since the job is over, and the transfers are gone
// while the threads are still at work on them.
TEST(CommThreads, OutliveAWaitThatFails) {
  auto outcomes = runWithCommThreads(
      {.ranks = 2, .sharedSize = 200 << 20},
      [](Communicator &communicator) -> std::string {
        auto sum = std::make_unique<Sum>(communicator, 20'000'000);
        auto request = communicator.start(sum->collective);
        if (!request)
          return request.error().message;
        if (communicator.rank() == 1) {
          usleep(2000); // so that it has begun
          communicator.job().abort("enough");
        }
        while (communicator.job().health())
          sched_yield();
        auto done = communicator.wait(*request);
        std::memset(&sum->transfer, 0xff, sizeof(sum->transfer));
        return done ? "" : done.error().message;
      },
      "");
  expectErrorEverywhere(outcomes, {"rank 1: enough"});
}

// A signal that the rank's thread blocks for a while waits for it.
TEST(CommThreads, LeaveSignalsToTheRank) {
  expectAllWell(1, [](Communicator &communicator) -> std::string {
    static std::atomic<bool> came;
    std::signal(SIGUSR1, [](int) { came = true; });
    communicator.setCommThreads(4);
    sigset_t one, pending;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &one, nullptr);
    kill(getpid(), SIGUSR1);
    usleep(20'000);
    sigpending(&pending);
    if (came || !sigismember(&pending, SIGUSR1))
      return "another thread took it";
    pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
    return came ? "" : "it did not come";
  });
}

} // namespace
} // namespace polyrank::runtime::test
