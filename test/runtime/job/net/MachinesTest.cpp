// Machines that join over real sockets, each with its thread.

#include "runtime/job/net/Machines.h"
#include "runtime/job/local/LocalJob.h"
#include "runtime/job/net/Sockets.h"

#include "test/runtime/job/net/ExampleMessages.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <fmt/format.h>
#include <functional>
#include <gtest/gtest.h>
#include <set>
#include <string>
#include <thread>

namespace polyrank::runtime::net {
namespace {

using namespace std::chrono_literals;
using Joined = Result<std::unique_ptr<Machines>>;

/// A port that nobody uses.
uint16_t freePort() {
  auto listeners = listenAt("127.0.0.1", 0, true);
  return portOf(listeners->front());
}

/// Ends a machine's part. Returns the status of all, -1 after a failure.
int finish(Machines &machine, const std::function<int()> &status) {
  Result<int> ofAll = machine.finish([] { return false; }, status);
  return ofAll ? *ofAll : -1;
}

class MachinesTest : public testing::Test {
protected:
  JoinOptions optionsOf(int machine, int machines) {
    JoinOptions options;
    options.machines = machines;
    options.machine = machine;
    options.host = "localhost";
    options.port = port;
    options.joinTimeout = 10s;
    options.statement = test::exampleStatement();
    return options;
  }
  /// All machines join at once.
  std::vector<Joined> joinAll(const std::vector<JoinOptions> &all) {
    std::vector<Joined> joined;
    for (size_t n = 0; n < all.size(); ++n)
      joined.push_back(Error{"not yet"});
    std::vector<std::thread> threads;
    for (size_t n = 0; n < all.size(); ++n)
      threads.emplace_back([&, n] { joined[n] = Machines::join(all[n]); });
    for (std::thread &thread : threads)
      thread.join();
    return joined;
  }
  std::vector<Joined> joinAll(int machines) {
    std::vector<JoinOptions> all;
    for (int machine = 0; machine < machines; ++machine)
      all.push_back(optionsOf(machine, machines));
    return joinAll(all);
  }

  uint16_t port = freePort();
};

TEST_F(MachinesTest, TheyJoinFailAndKnowTheFirstFailure) {
  std::vector<Joined> machines = joinAll(3);
  for (Joined &machine : machines)
    ASSERT_TRUE(machine) << machine.error().message;
  ASSERT_EQ((*machines[1])->peers().size(), 3u);
  EXPECT_EQ((*machines[1])->peers()[2].firstRank, 4);
  EXPECT_EQ((*machines[1])->describe(0), "machine 0 (127.0.0.1)");
  // A failure ends the ranks of every machine.
  std::vector<std::unique_ptr<JobControl>> jobs;
  for (Joined &machine : machines) {
    jobs.push_back(std::move(*local::createJob({.ranks = 2})));
    (*machine)->watch(*jobs.back());
  }
  (*machines[2])->tell("what explains it");
  (*machines[2])->fail({2, 1, Error{"rank 1 was killed", Error::Fault::Rank}});
  for (int machine = 0; machine < 3; ++machine) {
    auto failure = (*machines[machine])->awaitFailure();
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->machine, 2);
    EXPECT_EQ(failure->rank, 1);
    Result<void> health = jobs[machine]->health();
    ASSERT_FALSE(health);
    EXPECT_NE(health.error().message.find("rank 1 was killed"),
              std::string::npos);
  }
  std::vector<std::string> told = (*machines[0])->takeTold();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(told[0].ends_with(": what explains it")) << told[0];
  for (Joined &machine : machines)
    (*machine)->unwatch();
}

TEST_F(MachinesTest, TheyStopAfterTheSameStepAndEndTogether) {
  std::vector<Joined> machines = joinAll(2);
  std::vector<std::unique_ptr<JobControl>> jobs;
  std::vector<std::unique_ptr<JobMember>> ranks;
  for (Joined &machine : machines) {
    ASSERT_TRUE(machine) << machine.error().message;
    jobs.push_back(std::move(*local::createJob({.ranks = 1})));
    ranks.push_back(std::move(*local::joinJob(jobs.back()->descriptors(), 0)));
    (*machine)->watch(*jobs.back());
  }
  ASSERT_TRUE(ranks[0]->mayBegin(1) && ranks[0]->mayBegin(2));
  ASSERT_TRUE(ranks[1]->mayBegin(1));
  (*machines[1])->requestStop(15);
  while (!(*machines[0])->stop() || !(*machines[1])->stop())
    std::this_thread::yield();
  EXPECT_EQ((*machines[0])->stop(), (OtherMachines::Stop{2, 15}));
  EXPECT_FALSE(ranks[0]->mayBegin(3));
  EXPECT_TRUE(ranks[1]->mayBegin(2));
  EXPECT_FALSE(ranks[1]->mayBegin(3));
  std::thread other(
      [&] { EXPECT_EQ(finish(**machines[1], [] { return 1; }), 6); });
  EXPECT_EQ(finish(**machines[0], [] { return 6; }), 6);
  other.join();
  for (Joined &machine : machines)
    (*machine)->unwatch();
}

TEST_F(MachinesTest, PositionsOfRanksReachMachineZero) {
  std::vector<Joined> machines = joinAll(2);
  ASSERT_TRUE(machines[0] && machines[1]);
  auto job = local::createJob({.ranks = 2});
  auto rank = local::joinJob((*job)->descriptors(), 1);
  (*machines[1])->watch(**job);
  (*machines[1])->setProcesses({-1, getpid()});
  (*rank)->setProgress(7, 3);
  auto seen = [&] {
    auto ranks = (*machines[0])->ranksOf(1);
    return ranks.size() == 2 && ranks[1].report.step == 7 &&
           ranks[1].pid == getpid() && ranks[1].running;
  };
  for (int wait = 0; wait < 1000 && !seen(); ++wait)
    std::this_thread::sleep_for(5ms);
  EXPECT_TRUE(seen());
  EXPECT_TRUE((*machines[1])->ranksOf(0).empty());
  (*machines[1])->unwatch();
  *machines[1] = nullptr; // machine 0 waits until the others have gone
}

/// Two machines that share four ranks out, two each.
class SharedRanks : public MachinesTest {
protected:
  void SetUp() override {
    std::vector<JoinOptions> all;
    for (int machine : {0, 1}) {
      all.push_back(optionsOf(machine, 2));
      all.back().sharesRanks = true;
    }
    machines = joinAll(all);
    for (int machine : {0, 1}) {
      ASSERT_TRUE(machines[machine]) << machines[machine].error().message;
      jobs.push_back(std::move(
          *local::createJob({.ranks = 4, .here = RankRange{2 * machine, 2}})));
      windows.emplace_back(windowBytes);
    }
  }
  void watchAll() {
    for (int machine : {0, 1})
      (*machines[machine])->watch(*jobs[machine], windows[machine]);
  }
  /// Runs a body for each rank, in a thread of its own.
  void runAll(const std::function<void(JobMember &)> &body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 4; ++rank)
      threads.emplace_back([&, rank] {
        auto member = local::joinJob(jobs[rank / 2]->descriptors(), rank);
        ASSERT_TRUE(member);
        body(**member);
      });
    for (std::thread &thread : threads)
      thread.join();
  }
  void TearDown() override {
    for (Joined &machine : machines)
      (*machine)->unwatch();
    *machines[1] = nullptr; // machine 0 waits until the others have gone
  }

  static constexpr size_t windowBytes = size_t(9) << 20;
  std::vector<Joined> machines;
  std::vector<std::unique_ptr<JobControl>> jobs;
  std::vector<std::vector<std::byte>> windows;
};

TEST_F(SharedRanks, NoRankLeavesABarrierBeforeAllHaveCome) {
  watchAll();
  std::atomic<int> come = 0;
  runAll([&](JobMember &rank) {
    for (int round = 1; round <= 200; ++round) {
      ++come;
      ASSERT_TRUE(rank.barrier());
      EXPECT_GE(come, 4 * round);
    }
  });
}

TEST_F(SharedRanks, WhatRanksFillGetsToMachineZeroBeforeTheBarrierEnds) {
  watchAll();
  // Each rank fills a part of each of its bytes; the rest stays zero.
  constexpr uint64_t begin = 100, end = windowBytes - 100;
  for (int round : {1, 2}) {
    runAll([&, round](JobMember &rank) {
      std::span<std::byte> mine = windows[rank.rank() / 2];
      for (uint64_t at = begin + uint64_t(rank.rank()); at < end; at += 5)
        mine[at] = std::byte(round + rank.rank());
      ASSERT_TRUE(rank.gather(begin, end));
      if (rank.rank() != 0)
        return;
      for (uint64_t at = 0; at < windowBytes; ++at) {
        int filler = at < begin || at >= end ? 4 : int((at - begin) % 5);
        ASSERT_EQ(mine[at], std::byte(filler == 4 ? 0 : round + filler)) << at;
      }
      std::fill(mine.begin(), mine.end(), std::byte());
    });
    EXPECT_EQ(std::count(windows[1].begin(), windows[1].end(), std::byte()),
              windowBytes);
    if (round == 1) { // ranks join a job once
      for (int machine : {0, 1}) {
        (*machines[machine])->unwatch();
        jobs[machine] = std::move(
            *local::createJob({.ranks = 4, .here = RankRange{2 * machine, 2}}));
      }
      watchAll();
    }
  }
}

TEST_F(SharedRanks, AllSeeWhereTheRanksOfOtherMachinesAre) {
  watchAll();
  auto rank = local::joinJob(jobs[1]->descriptors(), 3);
  (*rank)->setProgress(7, 3);
  std::vector<int> blockers{0, 2};
  (*rank)->beginWait(5, RankWait::What::Starts, blockers);
  (*rank)->addAwaited(0, 1234);
  auto other = local::joinJob(jobs[0]->descriptors(), 0);
  auto seen = [&] {
    return (*other)->report(3).step == 7 &&
           (*other)->waitOf(3) == RankWait{RankWait::What::Starts, blockers} &&
           (*machines[0])->awaitedElsewhere(0) == 1234;
  };
  for (int wait = 0; wait < 1000 && !seen(); ++wait)
    std::this_thread::sleep_for(5ms);
  EXPECT_TRUE(seen());
}

TEST_F(SharedRanks, ReportsComeToMachineZeroInTheirOrder) {
  watchAll();
  std::string longLine(200'000, 'x');
  for (int n = 0; n < 1000; ++n)
    (*machines[1])->report(2 + n % 2, std::to_string(n));
  (*machines[1])->report(3, longLine);
  std::thread end(
      [&] { EXPECT_EQ(finish(**machines[1], [] { return 0; }), 0); });
  EXPECT_EQ(finish(**machines[0], [] { return 0; }), 0);
  end.join();
  std::vector<OtherMachines::Report> reports = (*machines[0])->takeReports();
  ASSERT_EQ(reports.size(), 1001u);
  for (int n = 0; n < 1000; ++n)
    EXPECT_EQ(reports[n],
              (OtherMachines::Report{2 + n % 2, std::to_string(n)}));
  EXPECT_EQ(reports.back(), (OtherMachines::Report{3, longLine}));
}

TEST_F(SharedRanks, LaunchersExchangeWhatTheyGive) {
  for (std::string round : {"first", "second"}) {
    std::vector<std::thread> threads;
    for (int machine : {0, 1})
      threads.emplace_back([&, machine] {
        auto all =
            (*machines[machine])->exchange(round + std::to_string(machine), [] {
              return false;
            });
        ASSERT_TRUE(all) << all.error().message;
        EXPECT_EQ(*all, (std::vector<std::string>{round + "0", round + "1"}));
      });
    for (std::thread &thread : threads)
      thread.join();
  }
  EXPECT_EQ((*machines[0])->incarnation(), (*machines[1])->incarnation());
  EXPECT_NE((*machines[0])->incarnation(), 0u);
  EXPECT_EQ((*machines[0])->ownAddress(), "127.0.0.1");
  EXPECT_EQ((*machines[0])->sessionKey(), (*machines[1])->sessionKey());
}

TEST_F(SharedRanks, AFailureEndsABarrier) {
  watchAll();
  std::thread fails([&] {
    std::this_thread::sleep_for(50ms);
    (*machines[1])->fail({1, 3, Error{"rank 3 died", Error::Fault::Rank}});
  });
  auto rank = local::joinJob(jobs[0]->descriptors(), 0);
  Result<void> met = (*rank)->barrier();
  fails.join();
  ASSERT_FALSE(met);
  EXPECT_NE(met.error().message.find("rank 3 died"), std::string::npos);
}

TEST_F(MachinesTest, AMachineThatLeavesIsLost) {
  std::vector<Joined> machines = joinAll(2);
  ASSERT_TRUE(machines[0] && machines[1]);
  *machines[1] = nullptr;
  auto failure = (*machines[0])->awaitFailure();
  ASSERT_TRUE(failure);
  EXPECT_TRUE(failure->error.message.starts_with("machine 1 ("));
  EXPECT_NE(failure->error.message.find("is lost: "), std::string::npos);
  EXPECT_EQ(finish(**machines[0], [] { return 0; }), -1);
}

TEST_F(MachinesTest, TheStatusIsAskedForWhenAllReportsHaveCome) {
  std::vector<Joined> machines = joinAll(2);
  ASSERT_TRUE(machines[0] && machines[1]);
  std::thread other([&] {
    (*machines[1])->report(2, "the last line");
    EXPECT_EQ(finish(**machines[1], [] { return 0; }), 1);
  });
  EXPECT_EQ(finish(**machines[0],
                   [&] { return int((*machines[0])->takeReports().size()); }),
            1);
  other.join();
}

/// Machines that start again after a failure.
class StartingAgain : public MachinesTest {
protected:
  JoinOptions againOf(int machine, int spares = 0) {
    JoinOptions options = optionsOf(machine, 2);
    options.sharesRanks = options.startsAgain = true;
    options.spares = spares;
    options.rejoinTimeout = 10s;
    return options;
  }
  static Result<void> startAgain(Machines &machine) {
    return machine.startAgain([] { return false; });
  }
  static std::string exchanged(Machines &machine) {
    auto all = machine.exchange(std::to_string(machine.machine()),
                                [] { return false; });
    return all ? fmt::format("{}{}", (*all)[0], (*all)[1])
               : all.error().message;
  }
};

TEST_F(StartingAgain, TheNextStartHasAnIncarnationOfItsOwn) {
  std::vector<Joined> machines = joinAll({againOf(0), againOf(1)});
  ASSERT_TRUE(machines[0] && machines[1]);
  Machines &first = **machines[0], &second = **machines[1];
  std::set<uint64_t> incarnations{first.incarnation()};
  std::set<std::array<uint8_t, 32>> keys{first.sessionKey()};
  for (int start = 2; start < 5; ++start) {
    second.fail({1, 1, Error{"rank 1 died", Error::Fault::Rank}});
    ASSERT_TRUE(first.awaitFailure());
    std::thread other([&] {
      ASSERT_TRUE(second.awaitFailure());
      EXPECT_TRUE(startAgain(second));
      EXPECT_EQ(exchanged(second), "01");
    });
    EXPECT_TRUE(startAgain(first));
    EXPECT_EQ(exchanged(first), "01");
    other.join();
    EXPECT_EQ(first.starts(), uint32_t(start));
    EXPECT_EQ(second.starts(), uint32_t(start));
    EXPECT_EQ(first.incarnation(), second.incarnation());
    EXPECT_EQ(first.sessionKey(), second.sessionKey());
    incarnations.insert(first.incarnation());
    keys.insert(first.sessionKey());
    EXPECT_FALSE(first.failure());
  }
  EXPECT_EQ(incarnations.size(), 4u);
  EXPECT_EQ(keys.size(), 4u);
  *machines[1] = nullptr;
}

TEST_F(StartingAgain, AnotherProcessComesInThePlaceOfALostMachine) {
  std::vector<Joined> machines = joinAll({againOf(0), againOf(1)});
  ASSERT_TRUE(machines[0] && machines[1]);
  *machines[1] = nullptr;
  ASSERT_TRUE((*machines[0])->awaitFailure());
  EXPECT_TRUE((*machines[0])->failure()->fromOutside);
  std::thread other([&] {
    machines[1] = Machines::join(againOf(1));
    ASSERT_TRUE(machines[1]) << machines[1].error().message;
    EXPECT_EQ(exchanged(**machines[1]), "01");
  });
  EXPECT_TRUE(startAgain(**machines[0]));
  EXPECT_EQ(exchanged(**machines[0]), "01");
  other.join();
  EXPECT_EQ((*machines[1])->incarnation(), (*machines[0])->incarnation());
  *machines[1] = nullptr;
}

TEST_F(StartingAgain, ASpareHasThePlaceThatItTakes) {
  std::vector<Joined> machines = joinAll({againOf(0, 1), againOf(1, 1)});
  ASSERT_TRUE(machines[0] && machines[1]);
  std::thread other([&] {
    Joined spare = Machines::join(againOf(2, 1));
    ASSERT_TRUE(spare && *spare);
    EXPECT_EQ((*spare)->machine(), 1);
    EXPECT_EQ(exchanged(**spare), "01");
  });
  std::this_thread::sleep_for(100ms);
  *machines[1] = nullptr;
  ASSERT_TRUE((*machines[0])->awaitFailure());
  EXPECT_TRUE(startAgain(**machines[0]));
  EXPECT_EQ(exchanged(**machines[0]), "01");
  other.join();
}

TEST_F(StartingAgain, WhoGoesOnWithFewerMachinesListensNoMore) {
  JoinOptions options = againOf(0);
  options.rejoinTimeout = 100ms;
  options.fewer = {1};
  std::vector<Joined> machines = joinAll({options, againOf(1)});
  ASSERT_TRUE(machines[0] && machines[1]);
  *machines[1] = nullptr;
  ASSERT_TRUE((*machines[0])->awaitFailure());
  EXPECT_FALSE(startAgain(**machines[0]));
  EXPECT_EQ((*machines[0])->fewer(), (OtherMachines::Fewer{1, 0}));
  // The job with fewer machines takes the port while this one is still there.
  EXPECT_TRUE(listenAt("127.0.0.1", port, true));
}

TEST_F(StartingAgain, ASpareThatNobodyNeedsGetsNoPlace) {
  std::vector<Joined> machines = joinAll({againOf(0, 1), againOf(1, 1)});
  ASSERT_TRUE(machines[0] && machines[1]);
  Joined spare = Error{"not yet"};
  std::thread third([&] { spare = Machines::join(againOf(2, 1)); });
  std::thread other(
      [&] { EXPECT_EQ(finish(**machines[1], [] { return 0; }), 0); });
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(finish(**machines[0], [] { return 0; }), 0);
  other.join();
  third.join();
  ASSERT_TRUE(spare) << spare.error().message;
  EXPECT_FALSE(*spare);
  *machines[1] = nullptr;
}

TEST_F(StartingAgain, WhatMachineZeroEndsIsOver) {
  std::vector<Joined> machines = joinAll({againOf(0), againOf(1)});
  ASSERT_TRUE(machines[0] && machines[1]);
  (*machines[1])->fail({1, 1, Error{"rank 1 died", Error::Fault::Rank}});
  ASSERT_TRUE((*machines[1])->awaitFailure());
  (*machines[0])->end({.error = Error{"it fails still", Error::Fault::Hang}});
  Result<void> next = startAgain(**machines[1]);
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error().message, "it fails still");
  EXPECT_EQ(next.error().fault, Error::Fault::Hang);
  EXPECT_FALSE(startAgain(**machines[0]));
  *machines[1] = nullptr;
}

TEST_F(StartingAgain, TheWaitForOthersCanBeInterrupted) {
  std::vector<Joined> machines = joinAll({againOf(0), againOf(1)});
  ASSERT_TRUE(machines[0] && machines[1]);
  *machines[1] = nullptr;
  ASSERT_TRUE((*machines[0])->awaitFailure());
  auto started = (*machines[0])->startAgain([] { return true; });
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().message,
            "interrupted before all ranks were started again");
}

TEST_F(MachinesTest, APortThatIsTakenIsAnErrorWithinASecond) {
  auto taken = listenAt("127.0.0.1", 0, true);
  port = portOf(taken->front());
  auto begin = std::chrono::steady_clock::now();
  Joined joined = Machines::join(optionsOf(0, 2));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 1s);
  ASSERT_FALSE(joined);
  EXPECT_TRUE(joined.error().message.starts_with(
      fmt::format("port {} of this machine is taken", port)))
      << joined.error().message;
}

TEST_F(MachinesTest, AMachineThatFindsNoCoordinatorSaysWhere) {
  JoinOptions options = optionsOf(1, 2);
  options.joinTimeout = 1s;
  Joined joined = Machines::join(options);
  ASSERT_FALSE(joined);
  EXPECT_TRUE(joined.error().message.starts_with(
      fmt::format("machine 0 was not reached at localhost:{} within 1 s: "
                  "Connection refused",
                  port)))
      << joined.error().message;
}

TEST_F(MachinesTest, AMissingMachineIsListed) {
  std::vector<JoinOptions> two{optionsOf(0, 3), optionsOf(2, 3)};
  for (JoinOptions &each : two)
    each.joinTimeout = 1s;
  for (Joined &joined : joinAll(two)) {
    ASSERT_FALSE(joined);
    EXPECT_TRUE(joined.error().message.starts_with(
        "1 of 3 machines have not come within 1 s: machine 1;"))
        << joined.error().message;
  }
}

TEST_F(MachinesTest, MachinesThatDisagreeAllSayWhy) {
  std::vector<JoinOptions> two{optionsOf(0, 2), optionsOf(1, 2)};
  two[1].statement.settings = "steps=4";
  for (Joined &joined : joinAll(two)) {
    ASSERT_FALSE(joined);
    EXPECT_NE(joined.error().message.find(
                  "steps=3 on machine 0 and steps=4 on machine 1"),
              std::string::npos)
        << joined.error().message;
    EXPECT_EQ(joined.error().fault, Error::Fault::Input);
  }
}

TEST_F(MachinesTest, WithoutAKeyNoOtherMachineIsConnectedTo) {
  JoinOptions options = optionsOf(1, 2);
  options.host = "192.0.2.1";
  Joined joined = Machines::join(options);
  ASSERT_FALSE(joined);
  EXPECT_NE(joined.error().message.find("--new-key FILE"), std::string::npos)
      << joined.error().message;
}

TEST_F(MachinesTest, NumbersThatNoJobHasAreRefused) {
  EXPECT_FALSE(Machines::join(optionsOf(2, 2)));
  EXPECT_FALSE(Machines::join(optionsOf(-1, 2)));
  EXPECT_FALSE(Machines::join(optionsOf(0, 0)));
  EXPECT_FALSE(Machines::join(optionsOf(0, 2049)));
  JoinOptions options = optionsOf(0, 2);
  options.statement.ranks = 5000;
  EXPECT_FALSE(Machines::join(options));
}

} // namespace
} // namespace polyrank::runtime::net
