// Machines of a job that start again after a failure, and those that are lost.

#include "test/runtime/job/net/Cluster.h"

#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

namespace polyrank::runtime::net {
namespace {

using namespace std::chrono_literals;
using test::Cluster;
using Phase = Node::Phase;

constexpr Coordinator::Options again{.sharesRanks = true, .startsAgain = true};

MachineFailure died(int machine) {
  return {machine, 0, Error{"rank 0 died", Error::Fault::Rank}, false, 0, 5};
}

/// Those nodes that were called join the next start.
void joinCalled(Cluster &cluster) {
  for (auto &node : cluster.nodes)
    node->startAgain();
  cluster.run();
}

void startAgain(Cluster &cluster) {
  cluster.coordinator.startAgain(7, cluster.now);
  cluster.run();
  joinCalled(cluster);
}

std::vector<Phase> phasesOf(const Cluster &cluster) {
  std::vector<Phase> all;
  for (const auto &node : cluster.nodes)
    all.push_back(node->phase());
  return all;
}

std::string refusalOf(const Node &node) {
  return node.refusal() ? node.refusal()->message : "";
}

TEST(StartAgain, AFailureIsNoEndBeforeMachineZeroHasDecided) {
  Cluster cluster(3, again);
  cluster.connectAll();
  cluster.nodes[1]->fail(died(1));
  cluster.run();
  for (const auto &node : cluster.nodes) {
    EXPECT_EQ(node->failure(), died(1));
    EXPECT_FALSE(node->isOver());
    EXPECT_FALSE(node->isCalledAgain());
  }
  // They live on meanwhile, and a later failure is none.
  cluster.pass(60s);
  cluster.nodes[2]->fail(died(2));
  cluster.run();
  EXPECT_EQ(cluster.nodes[0]->failure(), died(1));
}

TEST(StartAgain, ItBeginsOnceEachMachineHasEndedItsRanks) {
  Cluster cluster(3, again);
  cluster.connectAll();
  cluster.nodes[1]->fail(died(1));
  cluster.run();
  cluster.coordinator.startAgain(7, cluster.now);
  cluster.run();
  for (int machine : {2, 0}) {
    EXPECT_TRUE(cluster.nodes[machine]->isCalledAgain());
    EXPECT_TRUE(cluster.nodes[machine]->failure());
    cluster.nodes[machine]->startAgain();
    EXPECT_FALSE(cluster.nodes[machine]->isCalledAgain());
    cluster.run();
    cluster.pass(10s);
    EXPECT_EQ(cluster.nodes[machine]->phase(), Phase::Joining);
  }
  cluster.nodes[1]->startAgain();
  cluster.run();
  for (const auto &node : cluster.nodes) {
    EXPECT_EQ(node->phase(), Phase::Running);
    EXPECT_EQ(node->starts(), 2u);
    EXPECT_FALSE(node->failure());
  }
  // And once more.
  cluster.nodes[0]->fail(died(0));
  cluster.run();
  startAgain(cluster);
  EXPECT_EQ(cluster.nodes[2]->starts(), 3u);
}

TEST(StartAgain, NothingOfTheEarlierStartCounts) {
  Cluster cluster(2, again);
  cluster.connectAll();
  cluster.nodes[0]->exchange("old");
  cluster.nodes[1]->arrive({1, 3});
  cluster.nodes[1]->requestStop(15);
  cluster.run();
  cluster.coordinator.received(1, ReportsMessage{{{2, false, "half a "}}},
                               cluster.now);
  cluster.nodes[1]->fail(died(1));
  cluster.run();
  cluster.coordinator.startAgain(7, cluster.now);
  cluster.run();
  cluster.nodes[0]->startAgain();
  cluster.run();
  // Until it has joined nothing of its ranks counts.
  cluster.coordinator.received(1, ExchangeMessage{1, {"late"}}, cluster.now);
  cluster.coordinator.received(1, DoneMessage{9}, cluster.now);
  cluster.coordinator.received(1, FailMessage{died(1)}, cluster.now);
  joinCalled(cluster);
  EXPECT_EQ(phasesOf(cluster), std::vector(2, Phase::Running));
  cluster.pass(1s);
  EXPECT_EQ(cluster.nodes[0]->order(), FrontierOrder());
  cluster.nodes[1]->exchange("new");
  cluster.run();
  EXPECT_FALSE(cluster.nodes[1]->exchanged());
  cluster.nodes[0]->exchange("newer");
  cluster.nodes[0]->arrive({1, 0});
  cluster.nodes[1]->report(2, "line");
  cluster.nodes[1]->tick({}, cluster.now);
  cluster.run();
  EXPECT_EQ(cluster.nodes[1]->exchanged(),
            (std::vector<std::string>{"newer", "new"}));
  EXPECT_TRUE(cluster.nodes[0]->takeBarriers().empty());
  EXPECT_EQ(cluster.coordinator.takeReports(),
            (std::vector{OtherMachines::Report{2, "line"}}));
}

TEST(StartAgain, WhatMachineZeroGivesUpIsOverEverywhere) {
  Cluster cluster(2, again);
  cluster.connectAll();
  cluster.nodes[1]->fail(died(1));
  cluster.run();
  cluster.coordinator.giveUp(Error{"rank 0 died; it fails still"});
  cluster.run();
  for (const auto &node : cluster.nodes)
    EXPECT_TRUE(node->isOver());
  EXPECT_EQ(cluster.failureOf(1), "1: rank 0 died; it fails still");
  cluster.coordinator.startAgain(7, cluster.now);
  cluster.run();
  EXPECT_FALSE(cluster.nodes[1]->isCalledAgain());
  cluster.replace(1);
  cluster.connect(1);
  EXPECT_EQ(refusalOf(*cluster.nodes[1]), "rank 0 died; it fails still");
}

TEST(StartAgain, ASignalEndsTheJobInAStartAndBetweenTwo) {
  MachineFailure interrupted{1, -1, Error{"interrupted", Error::Fault::Rank},
                             false, 15};
  for (bool isBetween : {false, true}) {
    Cluster cluster(3, again);
    cluster.connectAll();
    if (isBetween) {
      cluster.nodes[2]->fail(died(2));
      cluster.run();
      cluster.nodes[1]->leave(interrupted);
    } else {
      cluster.nodes[1]->fail(interrupted);
    }
    cluster.run();
    for (const auto &node : cluster.nodes) {
      EXPECT_TRUE(node->isOver());
      EXPECT_EQ(node->failure()->signal, 15);
    }
  }
}

TEST(StartAgain, ANodeThatLosesMachineZeroMeanwhileFailsForGood) {
  for (bool hasJoined : {false, true}) {
    Cluster cluster(2, again);
    cluster.connectAll();
    cluster.nodes[0]->fail(died(0));
    cluster.run();
    cluster.coordinator.startAgain(7, cluster.now);
    cluster.run();
    if (hasJoined)
      cluster.nodes[1]->startAgain();
    cluster.nodes[1]->disconnected("connection reset", cluster.now);
    EXPECT_TRUE(cluster.nodes[1]->isOver());
    EXPECT_EQ(cluster.failureOf(1), "0: machine 0 is lost: connection reset");
  }
}

TEST(Rejoin, AnotherProcessTakesThePlaceOfALostMachine) {
  Cluster cluster(3, again);
  cluster.connectAll();
  cluster.disconnect(1);
  EXPECT_EQ(cluster.failureOf(2),
            "1: machine 1 (10.0.0.2) is lost: connection reset");
  EXPECT_TRUE(cluster.nodes[2]->failure()->fromOutside);
  startAgain(cluster);
  cluster.pass(2s);
  EXPECT_EQ(cluster.nodes[0]->phase(), Phase::Joining);
  EXPECT_EQ(cluster.coordinator.takeLog(),
            std::vector<std::string>{
                "machine 1 (10.0.0.2) is waited for, 300 s at most (--rejoin): "
                "start the same command there again, with --machine 1"});
  cluster.pass(200s);
  cluster.replace(1);
  cluster.connect(1);
  EXPECT_EQ(phasesOf(cluster), std::vector(3, Phase::Running));
  EXPECT_EQ(cluster.nodes[1]->starts(), 2u);
  EXPECT_TRUE(cluster.coordinator.takeLog().empty());
}

TEST(Rejoin, WhoDoesNotComeIsNamedAtTheDeadline) {
  Coordinator::Options options = again;
  options.rejoinTimeout = 20s;
  Cluster cluster(4, options);
  cluster.connectAll();
  cluster.disconnect(1);
  startAgain(cluster);
  cluster.pass(15s);
  cluster.disconnect(3); // it has as long to come again
  cluster.pass(19s);
  EXPECT_FALSE(cluster.nodes[2]->isOver());
  cluster.pass(2s);
  EXPECT_EQ(cluster.failureOf(2),
            "0: 2 of 4 machines have not come again within 20 s: machines 1, "
            "3; --rejoin gives them more time, and --spares others that take "
            "their places");
  EXPECT_TRUE(cluster.nodes[2]->isOver());
}

TEST(Rejoin, AMachineMayComeBeforeItsLossIsNoticed) {
  Cluster cluster(2, again, 1);
  cluster.connectAll();
  cluster.pass(1s);
  cluster.cut(1);
  cluster.pass(2s);
  cluster.connect(2, 1);
  EXPECT_EQ(cluster.nodes[2]->phase(), Phase::Joining);
  cluster.pass(3500ms);
  EXPECT_EQ(cluster.failureOf(0),
            "1: machine 1 (10.0.0.2) is lost: it was silent for 5 s");
  EXPECT_FALSE(cluster.nodes[2]->failure());
  startAgain(cluster);
  EXPECT_EQ(cluster.nodes[0]->phase(), Phase::Running);
  EXPECT_EQ(cluster.nodes[2]->phase(), Phase::Running);
  EXPECT_EQ(cluster.nodes[2]->place(), 1);
}

TEST(Rejoin, APlaceThatIsNotFreeIsRefusedAfterAWhile) {
  Cluster cluster(2, again, 1);
  cluster.connectAll();
  cluster.connect(2, 1);
  cluster.pass(5s);
  EXPECT_EQ(cluster.nodes[2]->phase(), Phase::Joining);
  cluster.pass(2s);
  EXPECT_EQ(refusalOf(*cluster.nodes[2]),
            "machine 1 (10.0.0.2) is there already: give each machine a number "
            "of its own");
  EXPECT_EQ(cluster.nodes[1]->phase(), Phase::Running);
  // Machine 0 is never waited for: without it there is no job.
  cluster.replace(2);
  cluster.connect(2, 0);
  EXPECT_NE(refusalOf(*cluster.nodes[2]), "");
}

TEST(Rejoin, AMachineThatDisagreesIsRefusedAlone) {
  Cluster cluster(2, again);
  cluster.connectAll();
  cluster.disconnect(1);
  startAgain(cluster);
  cluster.statements[1].plan = 7;
  cluster.replace(1);
  cluster.connect(1);
  EXPECT_NE(refusalOf(*cluster.nodes[1]).find("the hash of the plan"),
            std::string::npos);
  EXPECT_FALSE(cluster.nodes[0]->isOver());
  // From where it would go on is machine 0's decision now.
  cluster.statements[1] = test::exampleStatement();
  cluster.statements[1].resumed = "step 6";
  cluster.replace(1);
  cluster.connect(1);
  EXPECT_EQ(cluster.nodes[0]->phase(), Phase::Running);
}

TEST(Spares, OneTakesThePlaceOfALostMachine) {
  Coordinator::Options options = again;
  options.spares = 2;
  Cluster cluster(3, options);
  cluster.connectAll();
  cluster.connect(4);
  cluster.connect(3);
  cluster.pass(60s);
  EXPECT_EQ(cluster.nodes[3]->phase(), Phase::Joining);
  cluster.disconnect(1);
  EXPECT_FALSE(cluster.nodes[3]->failure());
  startAgain(cluster);
  EXPECT_EQ(cluster.nodes[0]->phase(), Phase::Running);
  EXPECT_EQ(cluster.nodes[3]->phase(), Phase::Running);
  EXPECT_EQ(cluster.nodes[3]->place(), 1);
  EXPECT_EQ(cluster.nodes[4]->phase(), Phase::Joining);
  EXPECT_EQ(cluster.nodes[0]->machines()[1].address, "10.0.0.4");
  EXPECT_EQ(cluster.coordinator.takeLog(),
            std::vector<std::string>{"the spare at 10.0.0.4 takes the place of "
                                     "machine 1 (10.0.0.2)"});
  // It is a machine as all others: its failure is that of machine 1.
  cluster.nodes[3]->fail(died(1));
  cluster.run();
  EXPECT_EQ(cluster.failureOf(0), "1: rank 0 died");
  startAgain(cluster);
  EXPECT_EQ(cluster.nodes[3]->place(), 1);
  EXPECT_EQ(cluster.nodes[3]->phase(), Phase::Running);
}

TEST(Spares, OneThatNobodyNeedsIsDoneWithTheOthers) {
  Coordinator::Options options = again;
  options.spares = 1;
  Cluster cluster(2, options);
  cluster.connect(2);
  cluster.connectAll();
  EXPECT_EQ(cluster.nodes[0]->phase(), Phase::Running);
  cluster.nodes[0]->finish(9);
  cluster.nodes[1]->finish(9);
  cluster.run();
  cluster.coordinator.conclude(0);
  cluster.run();
  EXPECT_EQ(phasesOf(cluster), std::vector(3, Phase::Done));
  EXPECT_EQ(cluster.nodes[2]->starts(), 0u);
}

TEST(Spares, OneTakesAPlaceToWhichNobodyCameAtTheFirstStart) {
  Coordinator::Options options = again;
  options.spares = 1;
  options.joinTimeout = 20s;
  Cluster cluster(2, options);
  cluster.connect(0);
  cluster.connect(2);
  cluster.pass(19s);
  EXPECT_EQ(cluster.nodes[0]->phase(), Phase::Joining);
  cluster.pass(2s);
  EXPECT_EQ(cluster.nodes[0]->phase(), Phase::Running);
  EXPECT_EQ(cluster.nodes[2]->place(), 1);
}

TEST(Spares, NumbersBeyondThemAreRefused) {
  Coordinator::Options options = again;
  options.spares = 1;
  Cluster cluster(2, options, 1);
  cluster.connect(3);
  EXPECT_EQ(refusalOf(*cluster.nodes[3]),
            "the job has machines 0 to 2, and this is machine 3");
}

TEST(Fewer, TheMostMachinesForWhichThereIsAPlanGoOn) {
  Coordinator::Options options = again;
  options.rejoinTimeout = 20s;
  options.fewer = {2, 4, 1};
  Cluster cluster(5, options);
  cluster.connectAll();
  cluster.disconnect(1);
  startAgain(cluster);
  cluster.disconnect(3);
  cluster.pass(19s);
  EXPECT_FALSE(cluster.nodes[0]->isOver());
  cluster.pass(2s);
  for (auto [machine, place] : {std::pair(0, 0u), {2, 1u}, {4, 2u}}) {
    const Node &node = *cluster.nodes[machine];
    EXPECT_TRUE(node.isOver());
    ASSERT_TRUE(node.fewer());
    EXPECT_EQ(*node.fewer(), (FewerMessage{2, place}));
    EXPECT_FALSE(node.failure());
  }
  // Whoever comes now has come too late.
  cluster.replace(1);
  cluster.connect(1);
  EXPECT_EQ(refusalOf(*cluster.nodes[1]),
            "the job goes on without it, on 2 machines");
}

TEST(Fewer, WithTooFewTheJobEnds) {
  Coordinator::Options options = again;
  options.rejoinTimeout = 20s;
  options.fewer = {2};
  Cluster cluster(3, options);
  cluster.connectAll();
  cluster.disconnect(1);
  startAgain(cluster);
  cluster.disconnect(2);
  cluster.pass(22s);
  EXPECT_FALSE(cluster.nodes[0]->fewer());
  EXPECT_NE(cluster.failureOf(0).find("2 of 3 machines have not come again"),
            std::string::npos);
}

TEST(Fewer, NobodyGoesOnBeforeAMachineIsMissing) {
  Coordinator::Options options = again;
  options.joinTimeout = 20s;
  options.fewer = {1};
  Cluster cluster(2, options);
  cluster.connect(0);
  cluster.pass(22s);
  EXPECT_FALSE(cluster.nodes[0]->fewer());
  EXPECT_NE(refusalOf(*cluster.nodes[0]), "");
}

} // namespace
} // namespace polyrank::runtime::net
