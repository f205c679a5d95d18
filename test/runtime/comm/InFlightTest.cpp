// The conformance suite for collectives that are started and waited for later.

#include "test/runtime/comm/CommunicatorCases.h"
#include "test/runtime/comm/Sum.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <memory>
#include <numeric>
#include <random>
#include <sys/mman.h>
#include <unistd.h>

namespace polyrank::runtime::test {
namespace {

class InFlightTest : public CommunicatorTest {};

using Random = std::mt19937_64;
int64_t draw(Random &random, int64_t least, int64_t most) {
  return least + static_cast<int64_t>(random() % uint64_t(most - least + 1));
}

/// Draws a collective of any kind, type and reduction, in place if possible,
/// with some transfers; the same on all ranks that have drawn equally often.
Case drawCase(Random &random, int members) {
  auto kind = static_cast<CollectiveKind>(draw(random, 0, 7));
  Reduction reduction = sumIfReducing(kind);
  if (reduction != Reduction::None && kind != CollectiveKind::HaloAdd)
    reduction = static_cast<Reduction>(draw(random, 1, 3));
  auto dtype = static_cast<ElementType>(draw(random, 0, numProgramTypes - 1));
  bool isPlain = ruleOf(kind).resizing == Resizing::None;
  int64_t largest = draw(random, 0, 5) == 0 ? 30'000 : 300;
  bool inPlace = draw(random, 0, 1) == 1;
  std::vector<Transfer> transfers;
  for (int64_t count = draw(random, 0, 4); count > 0; --count) {
    Transfer transfer = rows(isPlain || (inPlace && !ruleOf(kind).hasBorders())
                                 ? 1
                                 : draw(random, 1, 3),
                             draw(random, 1, largest));
    if (kind == CollectiveKind::AllToAll) {
      transfer.splitFirst = draw(random, 0, 1) == 1;
      transfer.middle = draw(random, 1, 2);
      transfer.inner = draw(random, 1, 100);
      transfer.x = transfer.splitFirst ? members : 3;
      transfer.y = transfer.splitFirst ? 3 : members;
    }
    if (ruleOf(kind).hasBorders())
      transfer.low = draw(random, 0, 3), transfer.high = draw(random, 0, 3);
    transfers.push_back(transfer);
  }
  Case test = makeCase(kind, reduction, dtype, std::move(transfers), members);
  test.inPlace = inPlace && ruleOf(kind).inPlace != InPlace::Never;
  return test;
}

struct Flying {
  std::unique_ptr<PlacedCase> placed;
  Request request;
};

/// Starts `count` drawn collectives of all ranks, and waits for them in the
/// order that `arrange` gives.
std::string startAndWait(Communicator &communicator, int count, uint64_t seed,
                         void (*arrange)(std::vector<Flying> &, int rank)) {
  Random random(seed);
  uint64_t cursor = 64 * communicator.rank();
  std::vector<Flying> flying;
  for (int n = 0; n < count; ++n) {
    auto placed = std::make_unique<PlacedCase>(
        communicator, allRanks(communicator),
        drawCase(random, communicator.worldSize()), seed * 100 + n, cursor);
    if (!placed->error.empty())
      return placed->error;
    placed->collective.id = n;
    auto request = communicator.start(placed->collective);
    if (!request)
      return request.error().message;
    flying.push_back({std::move(placed), *request});
  }
  arrange(flying, communicator.rank());
  for (Flying &each : flying) {
    if (auto done = communicator.wait(each.request); !done)
      return done.error().message;
    if (std::string text = each.placed->check(); !text.empty())
      return "of " + std::to_string(count) + ": " + text;
  }
  return "";
}

// If there are more than a group's ring holds, a start finishes an older one.
TEST_P(InFlightTest, EightTwentyAndFiftyCollectivesAreInFlightAtOnce) {
  auto inOrder = [](std::vector<Flying> &, int) {};
  auto backwards = [](std::vector<Flying> &all, int) {
    std::reverse(all.begin(), all.end());
  };
  auto shuffled = [](std::vector<Flying> &all, int rank) {
    std::shuffle(all.begin(), all.end(), Random(rank));
  };
  for (int ranks : {1, 3})
    expectAllWell({.ranks = ranks, .sharedSize = 32 << 20},
                  [&](Communicator &communicator) {
                    std::string text;
                    for (int count : {8, 20, 50}) {
                      text += startAndWait(communicator, count, 1, inOrder);
                      text += startAndWait(communicator, count, 2, backwards);
                      text += startAndWait(communicator, count, 3, shuffled);
                    }
                    return text;
                  });
}

// One bucket has more transfers than can be published at once; then more than
// that are in flight.
TEST_P(InFlightTest, BucketsOfManyTransfersAreInFlight) {
  expectAllWell({.ranks = 2, .sharedSize = 64 << 20},
                [](Communicator &communicator) {
                  std::vector<Flying> flying;
                  uint64_t cursor = 0;
                  for (int count : {2500, 7, 2500, 40'000, 0, 1024, 1025}) {
                    std::vector<Transfer> bucket;
                    for (int t = 0; t < count; ++t)
                      bucket.push_back(rows(1, 1 + t * 7 % 50));
                    auto placed = std::make_unique<PlacedCase>(
                        communicator, allRanks(communicator),
                        makeCase(CollectiveKind::AllReduce, Reduction::Sum,
                                 ElementType::F32, bucket, 2),
                        count, cursor);
                    if (!placed->error.empty())
                      return placed->error;
                    auto request = communicator.start(placed->collective);
                    if (!request)
                      return request.error().message;
                    flying.push_back({std::move(placed), *request});
                  }
                  std::reverse(flying.begin(), flying.end());
                  for (Flying &each : flying) {
                    if (auto done = communicator.wait(each.request); !done)
                      return done.error().message;
                    if (std::string text = each.placed->check(); !text.empty())
                      return text;
                  }
                  auto counted = communicator.statistics()[0].calls;
                  return counted == 7 ? "" : std::to_string(counted) + " calls";
                });
}

// Operations of two groups fill the limit; one of a third group makes older
// ones finish.
TEST_P(InFlightTest, WhatIsPublishedStaysUntilItIsRead) {
  expectAllWell(
      {.ranks = 2, .sharedSize = 64 << 20}, [](Communicator &communicator) {
        std::vector<Flying> flying;
        uint64_t cursor = 0;
        const std::pair<Ranks, int> buckets[] = {{{0, 1}, 16 * 1024},
                                                 {{1, 0}, 16 * 1024},
                                                 {{communicator.rank()}, 5000}};
        for (auto &[ranks, count] : buckets) {
          std::vector<Transfer> bucket;
          for (int t = 0; t < count; ++t)
            bucket.push_back(rows(1, 1 + t * 7 % 50));
          auto placed = std::make_unique<PlacedCase>(
              communicator, ranks,
              makeCase(CollectiveKind::AllReduce, Reduction::Sum,
                       ElementType::F32, bucket, int(ranks.size())),
              count, cursor);
          if (!placed->error.empty())
            return placed->error;
          auto request = communicator.start(placed->collective);
          if (!request)
            return request.error().message;
          flying.push_back({std::move(placed), *request});
        }
        for (Flying &each : flying) {
          if (auto done = communicator.wait(each.request); !done)
            return done.error().message;
          if (std::string text = each.placed->check(); !text.empty())
            return text;
        }
        return std::string();
      });
}

/// Runs a program of starts, waits, runs and barriers in crossing groups, which
/// all ranks draw alike; each rank draws by itself when it waits and how long
/// it delays.
std::string runRandomProgram(Communicator &communicator, uint64_t seed) {
  Random shared(seed), own(seed * 1000 + communicator.rank());
  int world = communicator.worldSize();
  if (draw(shared, 0, 2) == 0)
    communicator.setParallelFor(onThreeThreads);
  auto dawdle = [&] {
    if (draw(own, 0, 3) == 0)
      usleep(static_cast<useconds_t>(draw(own, 0, 400)));
  };
  std::vector<Flying> flying;
  uint64_t cursor = 64 * draw(own, 0, 9);
  auto waitForOne = [&]() -> std::string {
    auto each = flying.begin() + draw(own, 0, int64_t(flying.size()) - 1);
    auto done = communicator.wait(each->request);
    if (!done)
      return done.error().message;
    std::string text = each->placed->check();
    flying.erase(each);
    return text;
  };
  for (int n = 0; n < 40; ++n) {
    Ranks ranks;
    for (int rank = 0; rank < world; ++rank)
      if (draw(shared, 0, 2) != 0)
        ranks.push_back(rank);
    if (ranks.empty())
      ranks.push_back(static_cast<int32_t>(draw(shared, 0, world - 1)));
    std::shuffle(ranks.begin(), ranks.end(), shared);
    int64_t what = draw(shared, 0, 9);
    Case test = drawCase(shared, static_cast<int>(ranks.size()));
    if (!std::count(ranks.begin(), ranks.end(), communicator.rank()))
      continue;
    dawdle();
    if (what == 0) {
      if (auto met = communicator.exchange(*communicator.createGroup(ranks), 0);
          !met)
        return met.error().message;
      continue;
    }
    auto placed = std::make_unique<PlacedCase>(
        communicator, ranks, std::move(test), seed + n, cursor);
    if (!placed->error.empty())
      return placed->error;
    if (what == 1) {
      if (auto done = communicator.run(placed->collective); !done)
        return done.error().message;
      if (std::string text = placed->check(); !text.empty())
        return text;
      continue;
    }
    auto request = communicator.start(placed->collective);
    if (!request)
      return request.error().message;
    flying.push_back({std::move(placed), *request});
    while (!flying.empty() && draw(own, 0, 2) == 0) {
      dawdle();
      if (std::string text = waitForOne(); !text.empty())
        return text;
    }
  }
  while (!flying.empty())
    if (std::string text = waitForOne(); !text.empty())
      return text;
  return "";
}

TEST_P(InFlightTest,
       RandomProgramsOfStartsAndWaitsGiveWhatTheirDefinitionsSay) {
  const uint64_t seeds = GetParam().crossesMachines ? 5 : 12;
  for (int ranks : {1, 2, 3, 4})
    for (uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed)
      expectAllWell({.ranks = ranks, .sharedSize = 48 << 20},
                    [&](Communicator &communicator) {
                      std::string text = runRandomProgram(communicator, seed);
                      return text.empty()
                                 ? text
                                 : "seed " + std::to_string(seed) + ": " + text;
                    });
}

// The last rank to start does a small operation, waiting ranks do the others.
TEST_P(InFlightTest, ARankThatComesLateFindsItsOutputsDone) {
  for (int64_t elements : {3, 5000, 300'000}) {
    Flags flags;
    expectAllWell(
        {.ranks = 2, .sharedSize = 4 << 20},
        [&](Communicator &communicator) -> std::string {
          Sum sum(communicator, elements);
          for (int64_t e = 0; e < elements; ++e)
            sum.input[e] = static_cast<float>(e % 100 + communicator.rank());
          bool isLate = communicator.rank() == 1;
          if (!isLate) // so that the other one is the last to start
            flags.await(0, 1);
          auto request = communicator.start(sum.collective);
          if (!request)
            return request.error().message;
          if (isLate) {
            ++flags.words[0];
            flags.await(1, 1); // the other one has waited for it
            volatile float *last = &sum.output[elements - 1];
            auto isThere = [&] {
              return *last ==
                     static_cast<float>(2 * ((elements - 1) % 100) + 1);
            };
            // Of a small one each machine hears by itself.
            while (GetParam().crossesMachines && !isThere())
              usleep(100);
            if (!isThere())
              return "the output is not there";
          }
          auto done = communicator.wait(*request);
          if (!done)
            return done.error().message;
          // With communication threads each may have done the last.
          bool isFinisher = GetParam().hasCommThreads
                                ? done->completion().lastFinisher / 2 == 0
                                : done->completion().lastFinisher == 0;
          // What one rank has started others may hear of late.
          bool isStarter =
              GetParam().crossesMachines || done->completion().lastStarter == 0;
          if (!isStarter || !isFinisher ||
              done->completion().started > done->completion().finished)
            return "it says that rank " +
                   std::to_string(done->completion().lastStarter) +
                   " started last";
          ++flags.words[1];
          return "";
        });
  }
}

TEST_P(InFlightTest, StatisticsTellStartsWaitsAndWork) {
  expectAllWell({.ranks = 2}, [](Communicator &communicator) -> std::string {
    Sum sum(communicator, 100);
    auto request = communicator.start(sum.collective);
    if (!request || communicator.statistics()[0].calls != 0)
      return "counted before its end";
    if (!communicator.wait(*request))
      return "failed";
    CollectiveStatistics one = communicator.statistics()[0];
    if (one.calls != 1 || one.bytes != 400 || one.startingNanoseconds == 0 ||
        one.startingNanoseconds + one.waitingNanoseconds > one.nanoseconds)
      return "wrong statistics";
    if (!communicator.run(sum.collective))
      return "failed";
    CollectiveStatistics two = communicator.statistics()[0];
    if (two.calls != 2 || two.bytes != 800 ||
        two.startingNanoseconds != one.startingNanoseconds ||
        two.nanoseconds <= one.nanoseconds)
      return "wrong statistics of two";
    return "";
  });
}

TEST_P(InFlightTest, ARequestIsWaitedForOnce) {
  auto outcomes =
      run({.ranks = 2}, [](Communicator &communicator) -> std::string {
        Sum sum(communicator, 100);
        auto request = communicator.start(sum.collective);
        if (!request)
          return request.error().message;
        if (auto done = communicator.wait(*request); !done)
          return done.error().message; // the other one was quicker
        auto again = communicator.wait(*request);
        return again ? "" : again.error().message;
      });
  expectErrorEverywhere(outcomes, {"waits for a collective that it has not "
                                   "started, or has waited for"});
}

// The first rank to start gets the error in its wait, the last one at once.
TEST_P(InFlightTest, MembersThatStartDifferentCollectivesAreAnErrorOnEach) {
  for (int64_t elements : {100, 100'000}) {
    auto outcomes =
        run({.ranks = 3}, [&](Communicator &communicator) -> std::string {
          Sum agreed(communicator, 10, 4),
              sum(communicator, elements, communicator.rank() == 1 ? 71 : 70);
          auto first = communicator.start(agreed.collective);
          auto request = communicator.start(sum.collective);
          if (!request)
            return request.error().message;
          auto done = communicator.wait(*request);
          return done ? "" : done.error().message;
        });
    expectErrorEverywhere(outcomes,
                          {"ranks disagree", "value 70", "value 71", "rank 1"});
  }
}

TEST_P(InFlightTest, CirclesOfWaitsAreFoundBehindWhatIsInFlight) {
  auto outcomes =
      run({.ranks = 3}, [](Communicator &communicator) -> std::string {
        const Ranks groups[] = {{0, 1}, {1, 2}, {2, 0}};
        Sum all(communicator, 10, 4);
        auto flying = communicator.start(all.collective);
        Sum sum(communicator, 10, 40 + communicator.rank());
        sum.collective.group =
            *communicator.createGroup(groups[communicator.rank()]);
        auto request = communicator.start(sum.collective);
        if (!flying || !request)
          return "failed";
        if (!communicator.wait(*flying))
          return "failed";
        auto done = communicator.wait(*request);
        return done ? "" : done.error().message;
      });
  expectErrorEverywhere(
      outcomes, {"wait for each other", "rank 0 waits at value 40",
                 "rank 1 waits at value 41", "rank 2 waits at value 42"});
}

/// Rank 1 of 3 dies in `die`, and the others continue until they are told.
using Death = void (*)(Communicator &communicator, Sum &sum, Flags &flags);

// The rank dies before its start, between start and wait, while it waits for
// others, or while it works on a piece. Each time the others have two
// operations in flight.
TEST_P(InFlightTest, ARankThatDiesInAnyStateIsNamedToAllOthers) {
  const std::pair<const char *, Death> deaths[] = {
      {"not started", [](Communicator &, Sum &, Flags &) { raise(SIGKILL); }},
      {"started",
       [](Communicator &communicator, Sum &sum, Flags &) {
         (void)communicator.start(sum.collective);
         raise(SIGKILL);
       }},
      {"in a wait for others",
       [](Communicator &communicator, Sum &sum, Flags &flags) {
         auto request = communicator.start(sum.collective);
         ++flags.words[0]; // now the others begin to think of starting
         std::signal(SIGALRM, [](int) { raise(SIGKILL); });
         ualarm(20'000, 0);
         (void)communicator.wait(*request);
         pause();
       }},
      {"at work", [](Communicator &communicator, Sum &sum, Flags &) {
         communicator.setParallelFor([](int64_t, int64_t, const RangeBody &) {
           raise(SIGKILL); // a piece is claimed, and not done
         });
         auto request = communicator.start(sum.collective);
         (void)communicator.wait(*request);
         raise(SIGKILL); // the others had done all
       }}};
  // Of a small operation the start carries all; of a large one pieces move.
  for (auto &[state, die] : deaths)
    for (int64_t elements : {100, 1'000'000}) {
      SCOPED_TRACE(state + (" " + std::to_string(elements)));
      Flags flags;
      bool lateStart = std::string_view(state) == "in a wait for others";
      auto outcomes =
          run({.ranks = 3, .sharedSize = 16 << 20},
              [&](Communicator &communicator) -> std::string {
                Sum sum(communicator, elements);
                if (communicator.rank() == 1) {
                  die(communicator, sum, flags);
                  return "lives";
                }
                if (lateStart) {
                  flags.await(0, 1);
                  usleep(60'000);
                }
                auto first = communicator.start(sum.collective);
                auto second = communicator.start(sum.collective);
                for (auto &request : {first, second}) {
                  if (!request)
                    return request.error().message;
                  if (auto done = communicator.wait(*request); !done)
                    return done.error().message;
                }
                return "went on without rank 1";
              });
      EXPECT_EQ(outcomes[1].signal, SIGKILL);
      expectErrorEverywhere(outcomes, {"rank 1", "died"}, 1);
    }
}

TEST_P(InFlightTest, AnAbortEndsTheWaitForWhatIsInFlight) {
  auto outcomes = run(
      {.ranks = 2},
      [](Communicator &communicator) -> std::string {
        Sum sum(communicator, 10);
        if (communicator.rank() == 1) {
          while (communicator.job().health())
            usleep(1000);
          auto started = communicator.start(sum.collective);
          return started ? "" : started.error().message;
        }
        auto request = communicator.start(sum.collective);
        if (!request)
          return request.error().message;
        auto done = communicator.wait(*request);
        return done ? "" : done.error().message;
      },
      "interrupted by the user");
  expectErrorEverywhere(outcomes, {"interrupted by the user"});
}

/// A paced collective takes at least the time of its link, in nanoseconds.
TEST_P(InFlightTest, APacedLinkIsNeverFasterAndTakesOneAfterTheOther) {
  expectAllWell({.ranks = 2}, [](Communicator &communicator) -> std::string {
    constexpr int64_t latency = 2'000'000, elements = 10'000;
    constexpr int64_t perByte = 50'000; // ps; 20 MB/s: 40 kB take 2 ms
    Sum sum(communicator, elements);
    if (!communicator.createGroup(allRanks(communicator),
                                  {latency * 1000, perByte}) ||
        !communicator.exchange(sum.collective.group, 0))
      return "failed";
    // Two rounds, and what a rank sends: 2 n (g - 1) / g.
    int64_t each = 2 * latency + elements * 4 * perByte / 1000;
    std::vector<Request> requests;
    for (int n = 0; n < 3; ++n)
      requests.push_back(*communicator.start(sum.collective));
    int64_t free = 0; // when the link has taken what was started so far
    for (Request request : requests) {
      auto done = communicator.wait(request);
      if (!done)
        return done.error().message;
      timespec now;
      clock_gettime(CLOCK_MONOTONIC, &now);
      int64_t ended = now.tv_sec * 1'000'000'000 + now.tv_nsec;
      free = std::max(done->completion().started, free) + each;
      if (done->completion().finished < free)
        return "faster than its link";
      if (ended < done->completion().finished)
        return "the wait returned before its end";
    }
    // It ends during the time that passes before the wait.
    auto request = communicator.start(sum.collective);
    usleep(50'000);
    auto done = communicator.wait(*request);
    if (!done)
      return done.error().message;
    return communicator.statistics()[0].calls == 4 ? "" : "calls";
  });
}

INSTANTIATE_TEST_SUITE_P(
    , InFlightTest,
    testing::Values(
        CommunicatorUnderTest{"Shm", runOverShm},
        CommunicatorUnderTest{"ShmCommThreads", runWithCommThreads, true},
        CommunicatorUnderTest{"TwoMachines", runOverMachines<2>, true, true},
        CommunicatorUnderTest{"FourMachines", runOverMachines<4>, true, true},
        CommunicatorUnderTest{"TwoMachinesUcx",
                              runOverMachines<2, WireKind::Ucx>, true, true,
                              WireKind::Ucx}),
    [](const auto &instance) { return instance.param.name; });

} // namespace
} // namespace polyrank::runtime::test
