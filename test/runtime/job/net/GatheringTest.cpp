// How the machines of a job come together, and which of them are refused.

#include "test/runtime/job/net/Cluster.h"

#include <gtest/gtest.h>

namespace polyrank::runtime::net {
namespace {

using namespace std::chrono_literals;
using test::Cluster;
using Phase = Node::Phase;

std::string refusalOf(const Node &node) {
  return node.refusal() ? node.refusal()->message : "";
}

TEST(Gathering, TheJobBeginsWhenTheLastMachineHasCome) {
  Cluster cluster(3);
  cluster.connect(0);
  cluster.connect(2);
  cluster.pass(60s);
  for (const auto &node : cluster.nodes)
    EXPECT_EQ(node->phase(), Phase::Joining);
  cluster.connect(1);
  for (const auto &node : cluster.nodes) {
    EXPECT_EQ(node->phase(), Phase::Running);
    ASSERT_EQ(node->machines().size(), 3u);
    for (int machine = 0; machine < 3; ++machine) {
      const StartMessage::Machine &each = node->machines()[machine];
      EXPECT_EQ(each.address, Cluster::addressOf(machine));
      EXPECT_EQ(each.firstRank, 2u * machine);
      EXPECT_EQ(each.ranks, 2u);
      EXPECT_EQ(each.memory, cluster.statements[machine].memory);
    }
  }
}

TEST(Gathering, MissingMachinesAreListedAtTheDeadline) {
  Cluster cluster(5, {.joinTimeout = 20s});
  cluster.connect(0);
  cluster.connect(3);
  cluster.pass(19900ms);
  EXPECT_EQ(refusalOf(*cluster.nodes[0]), "");
  cluster.pass(200ms);
  for (int machine : {0, 3}) {
    std::string why = refusalOf(*cluster.nodes[machine]);
    EXPECT_TRUE(why.starts_with("3 of 5 machines have not come within 20 s: "
                                "machines 1, 2, 4; "))
        << why;
  }
  // Whoever comes now is told the same.
  cluster.connect(1);
  EXPECT_TRUE(refusalOf(*cluster.nodes[1]).starts_with("3 of 5 machines"));
}

TEST(Gathering, AMachineThatGoesMayComeAgain) {
  Cluster cluster(2);
  cluster.connect(0);
  cluster.nodes[1]->fail({}); // nothing can fail before the job begins
  cluster.connect(1);
  EXPECT_EQ(cluster.nodes[1]->phase(), Phase::Running);
  Cluster again(3);
  again.connect(0);
  again.connect(1);
  again.disconnect(1);
  EXPECT_EQ(again.nodes[1]->phase(), Phase::Joining);
  auto log = again.coordinator.takeLog();
  ASSERT_EQ(log.size(), 1u);
  EXPECT_EQ(log[0], "machine 1 (10.0.0.2) has gone again: connection reset; "
                    "it is waited for");
  again.connect(2);
  EXPECT_EQ(again.nodes[2]->phase(), Phase::Joining);
  again.connect(1);
  EXPECT_EQ(again.nodes[1]->phase(), Phase::Running);
}

TEST(Gathering, AMachineThatIsThereAlreadyIsRefused) {
  Cluster cluster(3);
  cluster.connect(0);
  cluster.connect(1);
  cluster.connect(2, 1);
  EXPECT_EQ(refusalOf(*cluster.nodes[2]),
            "machine 1 (10.0.0.2) is there already: give each machine a "
            "number of its own");
  EXPECT_EQ(cluster.nodes[1]->phase(), Phase::Joining);
}

TEST(Gathering, ASecondMachineZeroIsRefused) {
  Cluster cluster(2);
  cluster.connect(0);
  cluster.connect(1, 0);
  EXPECT_TRUE(refusalOf(*cluster.nodes[1])
                  .starts_with("machine 0 (10.0.0.1) "
                               "is there already"));
}

TEST(Gathering, MachinesThatCountDifferentlyAreRefused) {
  Cluster cluster(2);
  cluster.connect(0);
  cluster.connect(1, 1, 4);
  EXPECT_EQ(refusalOf(*cluster.nodes[1]),
            "it was started as one of 4 machines, and machine 0 as one of 2: "
            "give all the same number");
  cluster.nodes[1] =
      std::make_unique<Node>(1, cluster.statements[1], cluster.now);
  cluster.connect(1, 2, 2);
  EXPECT_EQ(refusalOf(*cluster.nodes[1]),
            "the job has machines 0 to 1, and this is machine 2");
}

TEST(Gathering, ADisagreementEndsTheJobBeforeItBegins) {
  Cluster cluster(3);
  cluster.connect(0);
  cluster.connect(1);
  NodeStatement statement = cluster.statements[2];
  statement.plan = 7;
  cluster.nodes[2] = std::make_unique<Node>(2, statement, cluster.now);
  cluster.connect(2);
  for (const auto &node : cluster.nodes) {
    EXPECT_EQ(node->phase(), Phase::Failed);
    EXPECT_NE(refusalOf(*node).find("0123456789abcdef on machine 0 and "
                                    "0000000000000007 on machine 2"),
              std::string::npos)
        << refusalOf(*node);
    EXPECT_EQ(node->refusal()->fault, Error::Fault::Input);
  }
}

TEST(Gathering, MixedCpusBeginIfThatIsAllowed) {
  for (bool allowed : {false, true}) {
    Cluster cluster(2, {.allowMixedCpus = allowed});
    NodeStatement statement = cluster.statements[1];
    statement.cpu = "sse2";
    cluster.nodes[1] = std::make_unique<Node>(1, statement, cluster.now);
    cluster.connectAll();
    EXPECT_EQ(cluster.nodes[0]->phase(),
              allowed ? Phase::Running : Phase::Failed);
  }
}

TEST(Gathering, WhoeverComesAfterTheBeginIsRefused) {
  Cluster cluster(2);
  cluster.connectAll();
  cluster.coordinator.arrived(9, {netProtocol, 1, 2, 1}, "10.0.0.9",
                              cluster.now);
  cluster.coordinator.received(
      9, JoinMessage{cluster.statements[1], "10.0.0.9"}, cluster.now);
  auto actions = cluster.coordinator.takeActions();
  ASSERT_EQ(actions.size(), 2u);
  EXPECT_EQ(std::get<RefuseMessage>(*actions[0].message).reason,
            "it comes too late, the job has begun without it");
  EXPECT_FALSE(actions[1].message);
  cluster.pass(10s);
  EXPECT_EQ(cluster.failureOf(0), "");
}

} // namespace
} // namespace polyrank::runtime::net
