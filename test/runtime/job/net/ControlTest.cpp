// What machines of a job do together: live, share, fail, stop and end.

#include "test/runtime/job/net/Cluster.h"

#include "runtime/job/Frontier.h"

#include <gtest/gtest.h>
#include <random>
#include <set>

namespace polyrank::runtime::net {
namespace {

using namespace std::chrono_literals;
using test::Cluster;
using test::exampleRank;
using Phase = Node::Phase;

TEST(Living, PulsesCarryThePositionsOfRanks) {
  Cluster cluster(2);
  cluster.connectAll();
  cluster.ranks[1] = {test::exampleRank(), RemoteRank()};
  cluster.pass(1s);
  EXPECT_EQ(cluster.coordinator.ranksOf(1), cluster.ranks[1]);
  cluster.ranks[1][0].report.step = 8;
  cluster.pass(600ms);
  EXPECT_EQ(cluster.coordinator.ranksOf(1), cluster.ranks[1]);
}

TEST(Living, ManyRanksAreToldInTurn) {
  Cluster cluster(2);
  for (int machine : {0, 1}) {
    cluster.statements[machine].ranks = 2500;
    cluster.nodes[machine] = std::make_unique<Node>(
        machine, cluster.statements[machine], cluster.now);
  }
  cluster.connectAll();
  cluster.ranks[1].resize(2500);
  for (size_t rank = 0; rank < 2500; ++rank)
    cluster.ranks[1][rank].report.step = rank + 1;
  cluster.pass(2s);
  EXPECT_EQ(cluster.coordinator.ranksOf(1), cluster.ranks[1]);
}

/// Two machines that share four ranks out.
Cluster sharing() {
  Cluster cluster(2, {.sharesRanks = true});
  cluster.connectAll();
  return cluster;
}

TEST(Sharing, ABarrierEndsWhenTheRanksOfAllMachinesHaveCome) {
  Cluster cluster = sharing();
  cluster.nodes[0]->arrive({1, 0});
  cluster.run();
  EXPECT_TRUE(cluster.nodes[0]->takeBarriers().empty());
  cluster.nodes[1]->arrive({1, 3});
  cluster.run();
  for (const auto &node : cluster.nodes)
    EXPECT_EQ(node->takeBarriers(), (std::vector{BarrierMessage{1, 3}}));
  // The next job counts from 1 again.
  cluster.nodes[1]->arrive({1, 2});
  cluster.run();
  EXPECT_TRUE(cluster.nodes[1]->takeBarriers().empty());
}

TEST(Sharing, AllAreToldWhereTheRanksOfAllAre) {
  Cluster cluster = sharing();
  cluster.ranks[1] = {{}, exampleRank()};
  cluster.pass(2s);
  for (const auto &node : cluster.nodes) {
    std::vector<RanksMessage> told = node->takeRanks();
    ASSERT_FALSE(told.empty());
    EXPECT_EQ(told.back(), (RanksMessage{0, {{}, {}, {}, exampleRank()}}));
  }
  Cluster apart(2);
  apart.connectAll();
  apart.pass(2s);
  EXPECT_TRUE(apart.nodes[1]->takeRanks().empty());
}

TEST(Sharing, VeryManyRanksAreToldInTurn) {
  Cluster many(2, {.sharesRanks = true});
  for (int machine : {0, 1}) {
    many.statements[machine].ranks = 400;
    many.nodes[machine] =
        std::make_unique<Node>(machine, many.statements[machine], many.now);
    many.ranks[machine] = std::vector<RemoteRank>(400, exampleRank());
  }
  many.connectAll();
  many.pass(3s);
  std::set<uint32_t> firsts;
  for (const RanksMessage &message : many.nodes[1]->takeRanks()) {
    EXPECT_EQ(message.ranks.size(), message.first == 0 ? 512u : 288u);
    firsts.insert(message.first);
  }
  EXPECT_EQ(firsts, (std::set<uint32_t>{0, 512}));
}

TEST(Sharing, WhatIsExchangedIsTheSameOnAll) {
  Cluster cluster = sharing();
  cluster.nodes[1]->exchange("one");
  cluster.run();
  EXPECT_FALSE(cluster.nodes[1]->exchanged());
  cluster.nodes[0]->exchange("zero");
  cluster.run();
  for (const auto &node : cluster.nodes)
    EXPECT_EQ(node->exchanged(), (std::vector<std::string>{"zero", "one"}));
}

TEST(Sharing, WhatRanksHaveReportedPrecedesTheirEndAndTheirFailure) {
  Cluster cluster = sharing();
  cluster.nodes[1]->report(2, "line");
  cluster.nodes[1]->finish(5);
  cluster.run();
  EXPECT_EQ(cluster.coordinator.takeReports(),
            (std::vector{OtherMachines::Report{2, "line"}}));
  cluster.nodes[0]->report(1, "another");
  cluster.nodes[0]->fail({0, 1, Error{"rank 1 died", Error::Fault::Rank}});
  cluster.run();
  EXPECT_EQ(cluster.coordinator.takeReports(),
            (std::vector{OtherMachines::Report{1, "another"}}));
}

TEST(Sharing, WhereRanksWereIsToldWithTheFailure) {
  Cluster cluster = sharing();
  cluster.pass(2s);
  (void)cluster.nodes[0]->takeRanks();
  // Network::fail does the same.
  cluster.nodes[1]->hurry();
  cluster.nodes[1]->tick({{}, exampleRank()}, cluster.now);
  cluster.nodes[1]->fail({1, 3, Error{"rank 3 died", Error::Fault::Rank}});
  cluster.run();
  std::vector<RanksMessage> told = cluster.nodes[0]->takeRanks();
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told.back(), (RanksMessage{0, {{}, {}, {}, exampleRank()}}));
  EXPECT_NE(cluster.failureOf(0), "");
}

TEST(Sharing, AReportThatIsTooLongEndsTheMachine) {
  Cluster cluster = sharing();
  for (int n = 0; n < 65; ++n) { // each a MiB of one line
    ReportsMessage message;
    for (int part = 0; part < 16; ++part)
      message.parts.push_back(
          {2, false, std::string(MessageBounds::text, 'x')});
    cluster.coordinator.received(1, message, cluster.now);
  }
  cluster.run();
  EXPECT_NE(cluster.failureOf(0).find("a rank's report is too long"),
            std::string::npos)
      << cluster.failureOf(0);
}

TEST(Living, ASilentMachineIsLostAfterFiveSeconds) {
  Cluster cluster(3);
  cluster.connectAll();
  cluster.pass(1s);
  cluster.pass(4400ms, {1});
  EXPECT_EQ(cluster.failureOf(2), "");
  cluster.pass(1s, {1});
  for (int machine : {0, 2})
    EXPECT_EQ(cluster.failureOf(machine),
              "1: machine 1 (10.0.0.2) is lost: it was silent for 5 s");
}

TEST(Living, AMachineWhoseMessagesAreLostIsLost) {
  Cluster cluster(3);
  cluster.connectAll();
  cluster.cut(2, true, false);
  cluster.pass(6s);
  EXPECT_EQ(cluster.failureOf(0),
            "2: machine 2 (10.0.0.3) is lost: it was silent for 5 s");
}

TEST(Living, ANodeThatHearsNothingEndsAfterFiveSeconds) {
  Cluster cluster(3);
  cluster.connectAll();
  cluster.cut(2, false, true);
  cluster.pass(4400ms);
  EXPECT_EQ(cluster.failureOf(2), "");
  cluster.pass(1s);
  EXPECT_EQ(cluster.failureOf(2),
            "0: machine 0 is lost: it was silent for 5 s");
}

TEST(Living, SleepOfTheWholeMachineIsNoSilence) {
  Cluster cluster(2);
  cluster.connectAll();
  cluster.pass(1s);
  cluster.now += 1h; // everybody slept
  cluster.pass(10s);
  EXPECT_EQ(cluster.failureOf(0), "");
  EXPECT_EQ(cluster.failureOf(1), "");
}

TEST(Living, AConnectionThatBreaksIsSeenAtOnce) {
  Cluster cluster(3);
  cluster.connectAll();
  cluster.disconnect(1);
  for (int machine : {0, 2})
    EXPECT_EQ(cluster.failureOf(machine),
              "1: machine 1 (10.0.0.2) is lost: connection reset");
  EXPECT_EQ(cluster.failureOf(1), "0: machine 0 is lost: connection reset");
}

TEST(Living, ClocksAreCompared) {
  Cluster cluster(2);
  cluster.connectAll();
  cluster.pass(3s); // a round trip with each tick
  // In this test all machines have one clock.
  EXPECT_EQ(cluster.nodes[1]->clockOffset(), 0s);
  Node ahead(1, cluster.statements[1], cluster.now);
  ahead.connected("", cluster.now);
  for (int trip = 0; trip < 16; ++trip) {
    ahead.tick({}, cluster.now);
    for (const Message &message : ahead.takeMessages())
      if (const auto *ping = std::get_if<PingMessage>(&message))
        ahead.received(PongMessage{ping->sent, ping->sent + 5'000'000'000},
                       cluster.now);
  }
  EXPECT_EQ(ahead.clockOffset(), 5s);
}

TEST(Failing, TheFirstFailureWinsOnAllMachines) {
  Cluster cluster(3);
  cluster.connectAll();
  cluster.nodes[1]->fail({0, 5, Error{"rank 5 died", Error::Fault::Rank}});
  cluster.nodes[2]->fail({0, 1, Error{"rank 1 hangs", Error::Fault::Hang}});
  EXPECT_EQ(cluster.failureOf(1), ""); // until the coordinator has decided
  cluster.run();
  for (int machine : {0, 1, 2}) {
    EXPECT_EQ(cluster.failureOf(machine), "1: rank 5 died");
    EXPECT_EQ(cluster.nodes[machine]->failure()->rank, 5);
    EXPECT_EQ(cluster.nodes[machine]->failure()->error.fault,
              Error::Fault::Rank);
  }
}

TEST(Failing, AMachineFailsForItselfAlone) {
  Cluster cluster(3);
  cluster.connectAll();
  cluster.coordinator.received(
      1, FailMessage{{2, 0, Error{"a lie", Error::Fault::Rank}}}, cluster.now);
  cluster.run();
  EXPECT_EQ(cluster.failureOf(0), "1: a lie");
}

TEST(Failing, ItsOwnFailureIsKnownWithoutTheCoordinator) {
  Cluster cluster(2);
  cluster.connectAll();
  cluster.cut(1);
  cluster.nodes[1]->fail({1, 0, Error{"rank 0 died", Error::Fault::Rank}});
  cluster.run();
  cluster.pass(6s);
  EXPECT_EQ(cluster.failureOf(1), "1: rank 0 died");
}

TEST(Failing, WhatExplainsItIsToldBefore) {
  Cluster cluster(2);
  cluster.connectAll();
  cluster.nodes[1]->tell("where the ranks are: ..");
  cluster.nodes[1]->fail({1, 0, Error{"rank 0 died", Error::Fault::Rank}});
  cluster.run();
  EXPECT_EQ(cluster.coordinator.takeTold(),
            std::vector<std::string>{
                "machine 1 (10.0.0.2): where the ranks are: .."});
  EXPECT_EQ(cluster.coordinator.takeTold(), std::vector<std::string>());
}

TEST(Telling, LinesGoUpInOneMessage) {
  Cluster cluster(2);
  cluster.connectAll();
  cluster.pass(5s);
  for (int line = 0; line < 200; ++line)
    cluster.nodes[1]->tell(std::to_string(line));
  cluster.nodes[1]->tick({}, cluster.now);
  int messages = 0;
  for (const Message &message : cluster.nodes[1]->takeMessages())
    messages += std::holds_alternative<TellMessage>(message);
  EXPECT_EQ(messages, 1);
}

TEST(Telling, TheQueueIsBounded) {
  Cluster cluster(2);
  cluster.connectAll();
  for (int line = 0; line < 5000; ++line)
    cluster.nodes[1]->tell(std::to_string(line));
  cluster.pass(3s);
  auto told = cluster.coordinator.takeTold();
  ASSERT_EQ(told.size(), 1000u);
  EXPECT_EQ(told.back(), "machine 1 (10.0.0.2): 4999"); // the oldest are gone
}

TEST(Ending, AllEndWhenTheLastMachineIsDone) {
  Cluster cluster(3);
  cluster.connectAll();
  cluster.nodes[0]->finish(9);
  cluster.nodes[2]->finish(9);
  cluster.run();
  EXPECT_EQ(cluster.nodes[0]->phase(), Phase::Running);
  cluster.pass(20s);
  EXPECT_FALSE(cluster.coordinator.isComplete());
  cluster.coordinator.conclude(5); // too early
  cluster.run();
  EXPECT_EQ(cluster.nodes[0]->phase(), Phase::Running);
  cluster.nodes[1]->finish(9);
  cluster.run();
  EXPECT_TRUE(cluster.coordinator.isComplete());
  EXPECT_EQ(cluster.nodes[1]->phase(), Phase::Running);
  cluster.coordinator.conclude(6);
  cluster.run();
  for (const auto &node : cluster.nodes) {
    EXPECT_EQ(node->phase(), Phase::Done);
    EXPECT_EQ(node->status(), 6);
  }
  // Who leaves then is not lost.
  cluster.disconnect(1);
  EXPECT_EQ(cluster.failureOf(0), "");
  EXPECT_EQ(cluster.failureOf(1), "");
}

TEST(Ending, AMachineThatIsDoneAndLostBeforeAllAreIsAFailure) {
  Cluster cluster(2);
  cluster.connectAll();
  cluster.nodes[1]->finish(9);
  cluster.run();
  cluster.disconnect(1);
  EXPECT_EQ(cluster.failureOf(0),
            "1: machine 1 (10.0.0.2) is lost: connection reset");
}

TEST(Strangers, AMessageBeforeTheFirstOneEndsTheConnectionAlone) {
  Cluster cluster(2);
  cluster.connectAll();
  cluster.coordinator.arrived(9, {netProtocol, 1, 2, 1}, "10.0.0.9",
                              cluster.now);
  cluster.coordinator.received(9, FailMessage{}, cluster.now);
  cluster.run();
  EXPECT_EQ(cluster.failureOf(0), "");
  cluster.coordinator.received(9, FailMessage{}, cluster.now); // it is gone
  cluster.run();
  EXPECT_EQ(cluster.failureOf(0), "");
}

TEST(Strangers, WhatNoNodeSendsEndsTheMachine) {
  Cluster cluster(2);
  cluster.connectAll();
  cluster.coordinator.received(1, CoordinatorPulse{}, cluster.now);
  cluster.run();
  EXPECT_EQ(cluster.failureOf(0),
            "1: machine 1 (10.0.0.2) is lost: it sent what no node sends");
}

/// Ranks of one machine that begin steps at random.
class Ranks : public FrontierGate {
public:
  uint64_t hold() override { return frontier.hold(); }
  void stopAfter(uint64_t step) override { frontier.stopAfter(step); }
  void release() override { frontier.release(); }

  /// A rank wants to begin its next step.
  void step(size_t rank) {
    Frontier::Answer answer = frontier.ask(steps[rank] + 1);
    steps[rank] += answer == Frontier::Answer::Yes;
    ended[rank] = answer == Frontier::Answer::No;
  }

  Frontier frontier;
  std::array<uint64_t, 2> steps{};
  std::array<bool, 2> ended{};
};

TEST(Stopping, TwoHundredRunsStopAfterTheSameStep) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    Cluster cluster(3);
    cluster.connectAll();
    std::array<Ranks, 3> ranks;
    for (int machine = 0; machine < 3; ++machine)
      cluster.nodes[machine]->setGate(&ranks[machine]);
    auto work = [&](int count) {
      for (int n = 0; n < count; ++n)
        ranks[random() % 3].step(random() % 2);
    };
    work(int(random() % 100));
    cluster.nodes[random() % 3]->requestStop(15);
    // Messages travel while the ranks work, one after another.
    for (int turn = 0; turn < 40; ++turn) {
      work(int(random() % 20));
      if (random() % 2)
        cluster.pass(100ms);
    }
    cluster.pass(1s);
    work(5000);
    uint64_t last = cluster.nodes[0]->order().step;
    for (int machine = 0; machine < 3; ++machine) {
      const FrontierOrder &order = cluster.nodes[machine]->order();
      EXPECT_EQ(order.phase, FrontierOrder::Phase::Stop);
      EXPECT_EQ(order.step, last);
      EXPECT_EQ(order.signal, 15);
      for (int rank = 0; rank < 2; ++rank) {
        EXPECT_EQ(ranks[machine].steps[rank], last) << "seed " << seed;
        EXPECT_TRUE(ranks[machine].ended[rank]);
      }
    }
  }
}

TEST(Stopping, AMachineThatHasEndedDoesNotHoldTheOthersUp) {
  Cluster cluster(2);
  cluster.connectAll();
  Ranks ranks;
  cluster.nodes[0]->setGate(&ranks);
  ranks.step(0);
  cluster.nodes[1]->finish(3);
  cluster.run();
  cluster.nodes[0]->requestStop(15);
  cluster.pass(1s);
  EXPECT_EQ(cluster.nodes[0]->order(),
            (FrontierOrder{2, FrontierOrder::Phase::Stop, 3, 15}));
}

} // namespace
} // namespace polyrank::runtime::net
