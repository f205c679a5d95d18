// The conformance suite: what every communicator must do, on real processes.

#include "support/Float16.h"
#include "test/runtime/comm/CommunicatorCases.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <numeric>
#include <thread>
#include <unistd.h>

namespace polyrank::runtime::test {
namespace {

const CollectiveKind plainKinds[] = {CollectiveKind::AllReduce,
                                     CollectiveKind::Permute,
                                     CollectiveKind::Broadcast};
const CollectiveKind rowKinds[] = {CollectiveKind::AllGather,
                                   CollectiveKind::ReduceScatter};

/// Runs every kind, with extents that a group of any size must support.
std::string runAllKinds(Communicator &communicator, const Ranks &ranks) {
  int members = static_cast<int>(ranks.size());
  uint64_t salt = 0;
  std::string text;
  auto check = [&](Case test, uint64_t skew) {
    text += runCase(communicator, ranks, std::move(test), ++salt, skew);
    return text.empty();
  };
  for (int64_t inner : {1, 2, 17, 1000, 4099}) {
    for (CollectiveKind kind : plainKinds)
      if (!check(makeCase(kind, sumIfReducing(kind), ElementType::F32,
                          {rows(1, inner)}, members),
                 3))
        return text;
    for (CollectiveKind kind : rowKinds)
      for (int64_t outer : {1, 2, 5})
        if (!check(makeCase(kind, sumIfReducing(kind), ElementType::F32,
                            {rows(outer, inner)}, members),
                   1))
          return text;
  }
  for (CollectiveKind kind : {CollectiveKind::Halo, CollectiveKind::HaloAdd})
    for (int64_t outer : {1, 5})
      for (int64_t inner : {1, 3, 3000})
        for (auto [low, high] : {std::pair(0, 1), {2, 0}, {2, 3}, {0, 0}}) {
          Transfer transfer = rows(outer, inner);
          transfer.low = low;
          transfer.high = high;
          if (!check(makeCase(kind, sumIfReducing(kind), ElementType::F32,
                              {transfer}, members),
                     2))
            return text;
        }
  for (bool splitFirst : {false, true})
    for (int64_t outer : {1, 3})
      for (int64_t middle : {1, 2})
        for (int64_t inner : {1, 3, 300})
          for (int64_t other : {1, 4}) {
            Transfer transfer = rows(outer, inner);
            transfer.middle = middle;
            transfer.x = splitFirst ? 2 * members : other;
            transfer.y = splitFirst ? other : 2 * members;
            transfer.splitFirst = splitFirst;
            if (!check(makeCase(CollectiveKind::AllToAll, Reduction::None,
                                ElementType::F32, {transfer}, members),
                       2))
              return text;
          }
  return text;
}

TEST_P(CommunicatorTest, EveryCollectiveEqualsItsDefinition) {
  for (int ranks : {1, 2, 3, 4})
    expectAllWell({.ranks = ranks}, [](Communicator &communicator) {
      return runAllKinds(communicator, allRanks(communicator));
    });
}

TEST_P(CommunicatorTest, DisjointAndOverlappingGroupsWorkInAnyOrderOfMembers) {
  expectAllWell({.ranks = 5}, [](Communicator &communicator) {
    // Every rank visits the groups that it belongs to in this order.
    const Ranks groups[] = {{0, 1},         {3, 2}, {4, 0, 2},
                            {1, 3},         {4},    {4, 3, 2, 1, 0},
                            {0, 1},         {2, 3}, {0, 1, 2, 3, 4},
                            {0, 3, 1, 4, 2}}; // in which machines take turns
    for (const Ranks &ranks : groups)
      if (std::count(ranks.begin(), ranks.end(), communicator.rank()))
        if (std::string text = runAllKinds(communicator, ranks); !text.empty())
          return text;
    return std::string();
  });
}

TEST_P(CommunicatorTest, EveryTypeIsReducedAndMoved) {
  expectAllWell({.ranks = 3}, [](Communicator &communicator) {
    Ranks ranks = allRanks(communicator);
    uint64_t salt = 100;
    for (int d = 0; d < numProgramTypes; ++d)
      for (int64_t inner : {1, 33, 5001}) {
        ElementType dtype = static_cast<ElementType>(d);
        for (Reduction reduction :
             {Reduction::Sum, Reduction::Max, Reduction::Min}) {
          for (CollectiveKind kind :
               {CollectiveKind::AllReduce, CollectiveKind::ReduceScatter})
            if (auto text = runCase(
                    communicator, ranks,
                    makeCase(kind, reduction, dtype, {rows(1, inner)}, 3),
                    ++salt);
                !text.empty())
              return text;
        }
        for (CollectiveKind kind :
             {CollectiveKind::Halo, CollectiveKind::HaloAdd}) {
          Transfer transfer = rows(2, inner);
          transfer.low = 2;
          transfer.high = 1;
          if (auto text = runCase(
                  communicator, ranks,
                  makeCase(kind, sumIfReducing(kind), dtype, {transfer}, 3),
                  ++salt);
              !text.empty())
            return text;
        }
        Transfer transfer = rows(2, inner);
        transfer.x = 3;
        transfer.splitFirst = true;
        for (CollectiveKind kind :
             {CollectiveKind::AllToAll, CollectiveKind::AllGather}) {
          if (kind == CollectiveKind::AllGather)
            transfer = rows(2, inner);
          if (auto text =
                  runCase(communicator, ranks,
                          makeCase(kind, Reduction::None, dtype, {transfer}, 3),
                          ++salt);
              !text.empty())
            return text;
        }
      }
    return std::string();
  });
}

TEST_P(CommunicatorTest, InPlaceCollectivesEqualTheirDefinition) {
  expectAllWell({.ranks = 4}, [](Communicator &communicator) {
    uint64_t salt = 200;
    for (CollectiveKind kind :
         {CollectiveKind::AllReduce, CollectiveKind::ReduceScatter,
          CollectiveKind::AllGather, CollectiveKind::Broadcast})
      for (int64_t inner : {1, 100, 12345}) {
        Case test = makeCase(kind, sumIfReducing(kind), ElementType::F32,
                             {rows(1, inner)}, 4);
        test.inPlace = true;
        if (auto text =
                runCase(communicator, allRanks(communicator), test, ++salt);
            !text.empty())
          return text;
      }
    return std::string();
  });
}

TEST_P(CommunicatorTest, ABucketOfAnyNumberOfTransfersIsOneCollective) {
  expectAllWell(
      {.ranks = 3, .sharedSize = 1 << 22}, [](Communicator &communicator) {
        for (int count : {0, 1, 7, 2500}) {
          std::vector<Transfer> bucket;
          for (int t = 0; t < count; ++t)
            bucket.push_back(rows(1, 1 + t * 7 % 50));
          for (CollectiveKind kind :
               {CollectiveKind::AllReduce, CollectiveKind::ReduceScatter,
                CollectiveKind::AllGather})
            if (auto text = runCase(communicator, allRanks(communicator),
                                    makeCase(kind, sumIfReducing(kind),
                                             ElementType::F32, bucket, 3),
                                    300 + count);
                !text.empty())
              return text;
        }
        auto counted = communicator.statistics()[0].calls;
        return counted == 4 ? "" : std::to_string(counted) + " calls";
      });
}

TEST_P(CommunicatorTest, LargeBuffersOnSeveralThreadsEqualTheDefinition) {
  expectAllWell(
      {.ranks = 2, .sharedSize = 24 << 20}, [](Communicator &communicator) {
        communicator.setParallelFor(onThreeThreads);
        Ranks ranks = allRanks(communicator);
        int64_t inner = (1 << 20) + 13;
        for (CollectiveKind kind :
             {CollectiveKind::AllReduce, CollectiveKind::ReduceScatter,
              CollectiveKind::AllGather})
          if (auto text = runCase(
                  communicator, ranks,
                  makeCase(kind, sumIfReducing(kind), ElementType::F32,
                           {rows(1, 1001), rows(1, inner), rows(1, 5)}, 2),
                  400);
              !text.empty())
            return text;
        Transfer transfer = rows(3, 1);
        transfer.x = 500;
        transfer.y = 602;
        return runCase(communicator, ranks,
                       makeCase(CollectiveKind::AllToAll, Reduction::None,
                                ElementType::F32, {transfer}, 2),
                       401);
      });
}

TEST_P(CommunicatorTest, ASumIsTakenInGroupOrderAndANaNIsNeverLost) {
  expectAllWell({.ranks = 3}, [](Communicator &communicator) {
    Ranks ranks{2, 0, 1};
    auto group = communicator.createGroup(ranks);
    auto *values = reinterpret_cast<float *>(memoryOf(communicator));
    const float byRank[] = {-1e8f, 1.0f, 1e8f};
    Transfer transfer = rows(1, 2);
    Collective collective{.reduction = Reduction::Sum, .group = *group};
    collective.transfers = {&transfer, 1};
    values[0] = values[1] = byRank[communicator.rank()];
    if (!communicator.run(collective))
      return std::string("failed");
    if (values[0] != (1e8f + -1e8f) + 1.0f)
      return "sum is " + std::to_string(values[0]);
    collective.reduction = Reduction::Max;
    for (int nanAt = 0; nanAt < 3; ++nanAt) {
      values[0] =
          communicator.rank() == nanAt ? NAN : byRank[communicator.rank()];
      if (!communicator.run(collective) || values[0] == values[0])
        return "maximum is " + std::to_string(values[0]);
    }
    return std::string();
  });
}

/// Sums over the group, of one transfer and of a bucket, in place and not.
std::string sumNarrow(Communicator &communicator, ElementType dtype) {
  Ranks ranks = allRanks(communicator);
  int members = static_cast<int>(ranks.size());
  uint64_t salt = 500;
  for (CollectiveKind kind :
       {CollectiveKind::AllReduce, CollectiveKind::ReduceScatter})
    for (bool inPlace : {false, true})
      for (int64_t inner : {1, 31, 33, 4099}) {
        std::vector<Transfer> bucket{rows(1, inner)};
        if (!inPlace)
          bucket.push_back(
              rows(kind == CollectiveKind::ReduceScatter ? 3 : 1, inner));
        Case test = makeCase(kind, Reduction::Sum, dtype, bucket, members);
        test.inPlace = inPlace;
        if (auto text = runCase(communicator, ranks, test, ++salt);
            !text.empty())
          return text;
      }
  return "";
}

TEST_P(CommunicatorTest, NarrowFloatsAreSummedInF32AndRoundedOnce) {
  for (int members : {2, 3, 4})
    expectAllWell({.ranks = members}, [](Communicator &communicator) {
      communicator.setParallelFor(onThreeThreads);
      return sumNarrow(communicator, ElementType::BF16) +
             sumNarrow(communicator, ElementType::F16);
    });
}

// In the type itself 256 + 1 is 256 in bf16, and 2048 + 1 is 2048 in f16,
// however often a one is added.
TEST_P(CommunicatorTest, NarrowSumsKeepSummandsBelowTheirRounding) {
  for (int members : {3, 4})
    expectAllWell({.ranks = members}, [members](Communicator &communicator) {
      auto group = communicator.createGroup(allRanks(communicator));
      auto *values = reinterpret_cast<uint16_t *>(memoryOf(communicator));
      for (bool brain : {true, false})
        for (CollectiveKind kind :
             {CollectiveKind::AllReduce, CollectiveKind::ReduceScatter}) {
          auto rounded = [&](float value) {
            return brain ? bfloat16FromFloat(value) : float16FromFloat(value);
          };
          float large = brain ? 256 : 2048;
          for (int i = 0; i < members; ++i)
            values[i] = rounded(communicator.rank() == 0 ? large : 1);
          Transfer transfer = rows(1, 1);
          transfer.output = 64;
          Collective collective{.kind = kind,
                                .reduction = Reduction::Sum,
                                .dtype = brain ? ElementType::BF16
                                               : ElementType::F16,
                                .group = *group};
          collective.transfers = {&transfer, 1};
          if (!communicator.run(collective))
            return std::string("failed");
          if (uint16_t expected =
                  rounded(large + static_cast<float>(members - 1));
              values[32] != expected)
            return "sum is " + std::to_string(values[32]) + " instead of " +
                   std::to_string(expected);
        }
      return std::string();
    });
}

TEST_P(CommunicatorTest, StatisticsCountBytesByTheUsualFormula) {
  expectAllWell({.ranks = 4}, [](Communicator &communicator) {
    uint64_t expected[numCollectiveKinds] = {};
    expected[int(CollectiveKind::AllReduce)] = 2 * 400 * 3 / 4;
    expected[int(CollectiveKind::ReduceScatter)] = 400 * 3;
    expected[int(CollectiveKind::AllGather)] = 400 * 3;
    expected[int(CollectiveKind::Broadcast)] = 300;
    for (CollectiveKind kind :
         {CollectiveKind::AllReduce, CollectiveKind::ReduceScatter,
          CollectiveKind::AllGather, CollectiveKind::Broadcast})
      runCase(communicator, allRanks(communicator),
              makeCase(kind, sumIfReducing(kind), ElementType::F32,
                       {rows(1, 100)}, 4),
              1);
    // Only borders in other ranks count: the first rank has none before it.
    Transfer bordered = rows(2, 100);
    bordered.low = 10;
    bordered.high = 20;
    for (CollectiveKind kind :
         {CollectiveKind::Halo, CollectiveKind::HaloAdd}) {
      int rank = communicator.rank();
      expected[int(kind)] = 2 * 4 * ((rank > 0 ? 10 : 0) + (rank < 3 ? 20 : 0));
      runCase(
          communicator, allRanks(communicator),
          makeCase(kind, sumIfReducing(kind), ElementType::F32, {bordered}, 4),
          1);
    }
    auto statistics = communicator.statistics();
    for (int k = 0; k < numCollectiveKinds; ++k)
      if (statistics[k].bytes != expected[k])
        return std::string(nameOf(static_cast<CollectiveKind>(k))) + ": " +
               std::to_string(statistics[k].bytes);
    return std::string();
  });
}

TEST_P(CommunicatorTest, ABlockThatARankSendsToItselfIsNotCounted) {
  expectAllWell({.ranks = 3}, [](Communicator &communicator) {
    Case test = makeCase(CollectiveKind::Permute, Reduction::None,
                         ElementType::F32, {rows(1, 100)}, 3);
    test.permutation = {0, 2, 1};
    auto text = runCase(communicator, allRanks(communicator), test, 1);
    uint64_t bytes =
        communicator.statistics()[int(CollectiveKind::Permute)].bytes;
    return bytes == (communicator.rank() == 0 ? 0 : 400)
               ? text
               : text + std::to_string(bytes) + " bytes";
  });
}

TEST_P(CommunicatorTest, BarriersHoldEveryMemberBack) {
  expectAllWell({.ranks = 8}, [](Communicator &communicator) {
    auto group = communicator.createGroup(allRanks(communicator));
    auto *value = reinterpret_cast<int64_t *>(memoryOf(communicator));
    Transfer transfer = rows(1, 1);
    transfer.output = 64;
    Collective collective{.reduction = Reduction::Min,
                          .dtype = ElementType::I64,
                          .group = *group};
    collective.transfers = {&transfer, 1};
    for (int n = 0; n < 200; ++n) {
      value[0] = n;
      if (!communicator.exchange(*group, 0) || !communicator.run(collective))
        return std::string("failed");
      if (value[8] != n)
        return "round " + std::to_string(n) + " saw " +
               std::to_string(value[8]);
    }
    return std::string();
  });
}

// A rank may be at the next exchange before the last one to come has left this
// one: neither its arrival there nor its value here may be lost. Several jobs,
// so that none takes long where the ranks have to share a core.
TEST_P(CommunicatorTest, ManyExchangesInARowLoseNoArrivalAndNoValue) {
  // Over machines each takes longer than a switch of threads.
  const uint64_t exchanges = GetParam().crossesMachines ? 2'000 : 30'000;
  for (int job = 0; job < 5 && !HasFailure(); ++job)
    expectAllWell({.ranks = 2}, [=](Communicator &communicator) {
      auto group = communicator.createGroup(allRanks(communicator));
      for (uint64_t n = 0; n < exchanges; ++n) {
        auto values = communicator.exchange(
            *group, n << 40 | static_cast<uint64_t>(communicator.rank()));
        if (!values || *values != std::vector{n << 40, n << 40 | 1})
          return "exchange " + std::to_string(n) + " failed";
      }
      return std::string();
    });
}

// Every failure is soon an error on all ranks, never a hang.

std::string sumOver(Communicator &communicator, const Ranks &ranks, uint64_t id,
                    int64_t elements, ElementType dtype = ElementType::F32) {
  auto group = communicator.createGroup(ranks);
  if (!group)
    return group.error().message;
  Transfer transfer = rows(1, elements);
  Collective collective{
      .reduction = Reduction::Sum, .dtype = dtype, .group = *group};
  collective.transfers = {&transfer, 1};
  collective.id = id;
  auto done = communicator.run(collective);
  return done ? "" : done.error().message;
}

TEST_P(CommunicatorTest, DifferentIdsAreAnErrorThatNamesBoth) {
  auto outcomes = run({.ranks = 4}, [](Communicator &communicator) {
    return sumOver(communicator, {0, 1, 2, 3},
                   communicator.rank() == 2 ? 71 : 70, 8);
  });
  expectErrorEverywhere(outcomes, {"rank 0", "value 70", "rank 2", "value 71"});
}

TEST_P(CommunicatorTest, DifferentSizesAreAnErrorThatNamesBoth) {
  auto outcomes = run({.ranks = 3}, [](Communicator &communicator) {
    return sumOver(communicator, {0, 1, 2}, 5, 100 + communicator.rank() / 2);
  });
  expectErrorEverywhere(outcomes, {"100 elements", "101 elements", "rank 2"});
}

TEST_P(CommunicatorTest, DifferentTypesAreAnErrorThatNamesBoth) {
  auto outcomes = run({.ranks = 2}, [](Communicator &communicator) {
    return sumOver(communicator, {0, 1}, 5, 100,
                   communicator.rank() ? ElementType::I32 : ElementType::F32);
  });
  expectErrorEverywhere(outcomes, {"f32", "i32"});
}

// Any difference between the ranks' collectives is an error.
TEST_P(CommunicatorTest, CollectivesThatDifferInAnythingAreAnError) {
  Transfer plain = rows(1, 6), bordered = plain, wider = plain, sixths = plain;
  bordered.low = 1, bordered.high = 2, wider.low = 2, wider.high = 1;
  for (Transfer *transfer : {&plain, &bordered, &wider, &sixths})
    transfer->output = 4096;
  sixths.inner = 1, sixths.x = 2, sixths.y = 3, sixths.splitFirst = true;
  Transfer split = sixths;
  split.splitFirst = false, split.x = 3, split.y = 2;
  struct Pair {
    CollectiveKind kind;
    Reduction first, second;
    Transfer one, other;
    Ranks sources, otherSources;
  };
  const Reduction none = Reduction::None, sum = Reduction::Sum;
  const Pair pairs[] = {
      {CollectiveKind::AllReduce, sum, Reduction::Max, plain, plain, {}, {}},
      {CollectiveKind::Halo, none, none, bordered, wider, {}, {}},
      {CollectiveKind::HaloAdd, sum, sum, bordered, wider, {}, {}},
      {CollectiveKind::AllGather, none, none, plain, rows(2, 3), {}, {}},
      {CollectiveKind::AllToAll, none, none, sixths, split, {}, {}},
      {CollectiveKind::Permute, none, none, plain, plain, {1, 0}, {0, 1}}};
  for (const Pair &pair : pairs) {
    auto outcomes = run({.ranks = 2}, [&](Communicator &communicator) {
      bool first = communicator.rank() == 0;
      Case test =
          makeCase(pair.kind, first ? pair.first : pair.second,
                   ElementType::F32, {first ? pair.one : pair.other}, 2);
      test.transfers[0].output = 4096;
      test.permutation = first ? pair.sources : pair.otherSources;
      Collective collective = test.collective;
      collective.group = *communicator.createGroup(Ranks{0, 1});
      collective.permutation = test.permutation;
      collective.transfers = test.transfers;
      auto done = communicator.run(collective);
      return done ? "" : done.error().message;
    });
    expectErrorEverywhere(outcomes, {"ranks disagree", nameOf(pair.kind)});
  }
}

TEST_P(CommunicatorTest, ACollectiveAgainstABarrierIsAnError) {
  auto outcomes = run({.ranks = 2}, [](Communicator &communicator) {
    if (communicator.rank() == 0)
      return sumOver(communicator, {0, 1}, 5, 100);
    auto done =
        communicator.exchange(*communicator.createGroup(Ranks{0, 1}), 0);
    return done ? "" : done.error().message;
  });
  expectErrorEverywhere(outcomes, {"value 5", "an exchange"});
}

TEST_P(CommunicatorTest, RanksThatWaitForEachOtherInDifferentGroupsAreAnError) {
  auto outcomes = run({.ranks = 3}, [](Communicator &communicator) {
    const Ranks groups[] = {{0, 1}, {1, 2}, {2, 0}};
    return sumOver(communicator, groups[communicator.rank()],
                   40 + communicator.rank(), 1);
  });
  expectErrorEverywhere(
      outcomes, {"wait for each other", "rank 0 waits at value 40",
                 "rank 1 waits at value 41", "rank 2 waits at value 42"});
}

TEST_P(CommunicatorTest, AKilledRankIsNamedToAllOthersWithinTwoSeconds) {
  auto outcomes = run({.ranks = 4}, [](Communicator &communicator) {
    sumOver(communicator, {0, 1, 2, 3}, 1, 8);
    if (communicator.rank() == 2)
      raise(SIGKILL);
    // Ranks 0 and 1 wait for rank 2 only by way of rank 3.
    if (communicator.rank() == 3)
      return sumOver(communicator, {2, 3}, 2, 8);
    return sumOver(communicator, {0, 1, 3}, 3, 8);
  });
  EXPECT_EQ(outcomes[2].signal, SIGKILL);
  expectErrorEverywhere(outcomes, {"rank 2", "died"}, 2);
}

TEST_P(CommunicatorTest, ARankThatLeavesEarlyIsNamedToAllOthers) {
  auto outcomes = run({.ranks = 3}, [](Communicator &communicator) {
    return communicator.rank() == 1 ? ""
                                    : sumOver(communicator, {0, 1, 2}, 9, 8);
  });
  expectErrorEverywhere(outcomes, {"rank 1", "left the job"}, 1);
}

TEST_P(CommunicatorTest, AnAbortFromAnotherThreadWakesEveryWaiter) {
  auto outcomes = run({.ranks = 3}, [](Communicator &communicator) {
    std::thread monitor;
    if (communicator.rank() == 1)
      monitor = std::thread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        communicator.job().abort("the disk is on fire");
      });
    std::string text;
    if (communicator.rank() != 2)
      text = sumOver(communicator, {0, 1, 2}, 9, 8);
    else
      while (communicator.job().health())
        usleep(1000);
    if (monitor.joinable())
      monitor.join();
    return text + communicator.job().health().error().message;
  });
  expectErrorEverywhere(outcomes, {"rank 1: the disk is on fire"});
}

TEST_P(CommunicatorTest, AnAbortByTheLauncherWakesEveryWaiter) {
  auto outcomes = run(
      {.ranks = 2},
      [](Communicator &communicator) {
        if (communicator.rank() == 0)
          return sumOver(communicator, {0, 1}, 9, 8);
        while (communicator.job().health())
          usleep(1000);
        return communicator.job().health().error().message;
      },
      "interrupted by the user");
  expectErrorEverywhere(outcomes, {"interrupted by the user"});
}

TEST_P(CommunicatorTest, AMalformedCollectiveIsAnErrorBeforeItRuns) {
  struct Malformed {
    Case test;
    const char *message;
  };
  auto shaped = [](CollectiveKind kind, Transfer transfer) {
    return makeCase(kind, sumIfReducing(kind), ElementType::F32, {transfer}, 2);
  };
  Transfer beyond = rows(1, 1 << 20), huge = rows(int64_t(1) << 40, 1 << 30);
  Transfer crooked = rows(1, 4), shifted = rows(1, 16), odd = rows(1, 4);
  crooked.input = crooked.output = 2;
  shifted.output = 32;
  odd.x = 3;
  odd.splitFirst = true;
  odd.output = 4096;
  Transfer square = rows(1, 4), bordered = rows(1, 4), inside = rows(1, 4);
  square.middle = 2, bordered.high = 1, inside.low = -1;
  square.output = bordered.output = inside.output = 4096;
  Transfer still = rows(1, 4), wrongBlock = rows(1, 4);
  wrongBlock.input = 16; // of rank 1
  Transfer apart = rows(1, 4);
  apart.output = 4096;
  Case maxima = shaped(CollectiveKind::HaloAdd, apart);
  maxima.collective.reduction = Reduction::Max;
  Case shortPermutation = shaped(CollectiveKind::Permute, apart);
  shortPermutation.permutation = {0};
  Case longPermutation = shaped(CollectiveKind::Permute, apart);
  longPermutation.permutation = {0, 1, 1};
  Case noReduction = shaped(CollectiveKind::AllReduce, rows(1, 4));
  noReduction.collective.reduction = Reduction::None;
  Case badSource = shaped(CollectiveKind::Permute, rows(1, 4));
  badSource.permutation = {0, 2};
  Malformed all[] = {
      {shaped(CollectiveKind::AllReduce, beyond), "outside the shared region"},
      {shaped(CollectiveKind::AllGather, huge), "too large"},
      {shaped(CollectiveKind::AllReduce, rows(1, 0)), "an extent of 0"},
      {shaped(CollectiveKind::AllReduce, rows(1, -4)), "an extent of -4"},
      {shaped(CollectiveKind::AllReduce, crooked), "misaligned"},
      {shaped(CollectiveKind::AllReduce, shifted), "overlaps"},
      {shaped(CollectiveKind::AllReduce, rows(2, 4)), "outer=2 instead of 1"},
      {shaped(CollectiveKind::AllToAll, odd),
       "splits an extent of 3 over 2 ranks"},
      {shaped(CollectiveKind::AllReduce, square), "are for an all_to_all"},
      {shaped(CollectiveKind::AllGather, bordered), "borders of 0 and 1"},
      {shaped(CollectiveKind::Halo, inside), "borders of -1 and 0"},
      {shaped(CollectiveKind::Permute, still), "overlaps"},
      {shaped(CollectiveKind::AllGather, wrongBlock), "overlaps"},
      {maxima, "borders are summed"},
      {shortPermutation, "has sources for 1 ranks in a group of 2"},
      {longPermutation, "has sources for 3 ranks in a group of 2"},
      {noReduction, "all_reduce with reduction 0"},
      {badSource, "takes from rank 2 of a group of 2"}};
  for (const Malformed &malformed : all) {
    auto outcomes = run({.ranks = 2}, [&](Communicator &communicator) {
      if (communicator.rank() == 1)
        return sumOver(communicator, {0, 1}, 1, 4);
      auto group = communicator.createGroup(Ranks{0, 1});
      Collective collective = malformed.test.collective;
      collective.group = *group;
      collective.permutation = malformed.test.permutation;
      collective.transfers = malformed.test.transfers;
      auto fits = communicator.check(collective);
      if (fits)
        return std::string();
      communicator.job().abort(fits.error().message);
      return communicator.job().health().error().message;
    });
    expectErrorEverywhere(outcomes, {malformed.message, "rank 0"});
  }
}

TEST_P(CommunicatorTest, AGroupThatIsNotOneIsAnError) {
  for (const Ranks &ranks : {Ranks{0, 0}, Ranks{0, 2}, Ranks{1}}) {
    auto outcomes = run({.ranks = 2}, [&](Communicator &communicator) {
      if (communicator.rank() == 1)
        return sumOver(communicator, {0, 1}, 1, 4);
      auto group = communicator.createGroup(ranks);
      return group ? "" : group.error().message;
    });
    expectErrorEverywhere(outcomes, {"rank 0", "group"});
  }
}

INSTANTIATE_TEST_SUITE_P(
    , CommunicatorTest,
    testing::Values(
        CommunicatorUnderTest{"Shm", runOverShm},
        CommunicatorUnderTest{"Late", runLate},
        CommunicatorUnderTest{"ShmCommThreads", runWithCommThreads, true},
        CommunicatorUnderTest{"TwoMachines", runOverMachines<2>, true, true},
        CommunicatorUnderTest{"FourMachines", runOverMachines<4>, true, true},
        CommunicatorUnderTest{"TwoMachinesUcx",
                              runOverMachines<2, WireKind::Ucx>, true, true,
                              WireKind::Ucx}),
    [](const auto &instance) { return instance.param.name; });

} // namespace
} // namespace polyrank::runtime::test
