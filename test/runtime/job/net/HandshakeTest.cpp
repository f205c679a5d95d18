// Both ends of a connection prove that they have the key.

#include "runtime/job/net/Handshake.h"

#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>

namespace polyrank::runtime::net {
namespace {

constexpr Claim claim{netProtocol, 1, 2, 99};

JobKey keyOf(uint8_t first) {
  std::array<uint8_t, JobKey::size> bytes{first};
  return JobKey(bytes);
}

/// What happens when the two talk to each other: "" if both are done.
std::string talk(NodeHandshake &node, CoordinatorHandshake &coordinator,
                 size_t part = 4096) {
  std::vector<uint8_t> up = node.hello(), down;
  for (int turn = 0; turn < 4; ++turn) {
    for (auto *end : {&up, &down}) {
      std::vector<uint8_t> bytes = std::exchange(*end, {});
      for (size_t at = 0; at < bytes.size(); at += part) {
        auto some =
            std::span(bytes).subspan(at, std::min(part, bytes.size() - at));
        Result<void> taken = end == &up ? coordinator.receive(some, down)
                                        : node.receive(some, up);
        if (!taken)
          return (end == &up ? "coordinator: " : "node: ") +
                 taken.error().message;
      }
    }
  }
  return node.isDone() && coordinator.isDone() ? "" : "not done";
}

TEST(Handshake, BothEndsAgree) {
  for (size_t part : {1, 13, 4096}) {
    NodeHandshake node(keyOf(1), claim, {1});
    CoordinatorHandshake coordinator(keyOf(1), 42, {2});
    ASSERT_EQ(talk(node, coordinator, part), "");
    EXPECT_EQ(coordinator.claim(), claim);
    EXPECT_EQ(node.incarnation(), 42u);
    SealedStream up = node.stream(), down = coordinator.stream();
    std::vector<Message> messages;
    ASSERT_TRUE(down.receive(up.seal(PingMessage{5}), messages));
    ASSERT_TRUE(up.receive(down.seal(PongMessage{5, 6}), messages));
    EXPECT_EQ(messages.size(), 2u);
  }
}

TEST(Handshake, BothDirectionsHaveKeysOfTheirOwn) {
  NodeHandshake node(keyOf(1), claim, {1});
  CoordinatorHandshake coordinator(keyOf(1), 42, {2});
  ASSERT_EQ(talk(node, coordinator), "");
  SealedStream sender = node.stream(), receiver = node.stream();
  std::vector<Message> messages;
  EXPECT_FALSE(receiver.receive(sender.seal(PingMessage{5}), messages));
}

TEST(Handshake, TheNodeFindsThatTheCoordinatorHasAnotherKey) {
  NodeHandshake node(keyOf(1), claim, {1});
  CoordinatorHandshake coordinator(keyOf(2), 42, {2});
  EXPECT_EQ(talk(node, coordinator),
            "node: it has another key: give all machines the same --key");
  EXPECT_FALSE(coordinator.isDone());
}

TEST(Handshake, TheCoordinatorFindsThatTheNodeHasAnotherKey) {
  NodeHandshake node(keyOf(1), claim, {1});
  CoordinatorHandshake coordinator(keyOf(1), 42, {2});
  std::vector<uint8_t> challenge, proof;
  ASSERT_TRUE(coordinator.receive(node.hello(), challenge));
  ASSERT_TRUE(node.receive(challenge, proof));
  for (size_t bit = 0; bit < 8 * proof.size(); ++bit) {
    CoordinatorHandshake other(keyOf(1), 42, {2});
    std::vector<uint8_t> ignored, wrong = proof;
    wrong[bit / 8] ^= uint8_t(1 << (bit % 8));
    ASSERT_TRUE(other.receive(node.hello(), ignored));
    Result<void> taken = other.receive(wrong, ignored);
    ASSERT_FALSE(taken) << bit;
    EXPECT_EQ(taken.error().message, "it has another key");
    EXPECT_FALSE(other.isDone());
  }
}

TEST(Handshake, TheCoordinatorsProofCannotBeSentBack) {
  NodeHandshake node(keyOf(1), claim, {1});
  CoordinatorHandshake coordinator(keyOf(1), 42, {2});
  std::vector<uint8_t> challenge, ignored;
  ASSERT_TRUE(coordinator.receive(node.hello(), challenge));
  std::vector<uint8_t> proof(challenge.end() - 32, challenge.end());
  EXPECT_FALSE(coordinator.receive(proof, ignored));
}

TEST(Handshake, AReplayedNodeIsRefused) {
  NodeHandshake node(keyOf(1), claim, {1});
  CoordinatorHandshake first(keyOf(1), 42, {2}), second(keyOf(1), 42, {3}),
      third(keyOf(1), 43, {2});
  std::vector<uint8_t> challenge, proof, ignored;
  ASSERT_TRUE(first.receive(node.hello(), challenge));
  ASSERT_TRUE(node.receive(challenge, proof));
  ASSERT_TRUE(first.receive(proof, ignored));
  ASSERT_TRUE(first.isDone());
  // Another nonce, or another incarnation: the recorded proof is worthless.
  for (CoordinatorHandshake *other : {&second, &third}) {
    ASSERT_TRUE(other->receive(node.hello(), ignored));
    EXPECT_FALSE(other->receive(proof, ignored));
  }
}

TEST(Handshake, AReplayedCoordinatorIsRefused) {
  NodeHandshake first(keyOf(1), claim, {1}), second(keyOf(1), claim, {9});
  CoordinatorHandshake coordinator(keyOf(1), 42, {2});
  std::vector<uint8_t> challenge, ignored;
  ASSERT_TRUE(coordinator.receive(first.hello(), challenge));
  EXPECT_TRUE(first.receive(challenge, ignored));
  EXPECT_FALSE(second.receive(challenge, ignored));
}

TEST(Handshake, EveryFieldOfTheClaimIsProved) {
  NodeHandshake node(keyOf(1), claim, {1});
  // Behind the magic and the protocol: machine, machines, plan, nonce.
  for (size_t at = 12; at < node.hello().size(); ++at) {
    CoordinatorHandshake coordinator(keyOf(1), 42, {2});
    std::vector<uint8_t> changed = node.hello(), challenge, ignored;
    changed[at] ^= 1;
    ASSERT_TRUE(coordinator.receive(changed, challenge));
    NodeHandshake same(keyOf(1), claim, {1});
    EXPECT_FALSE(same.receive(challenge, ignored)) << at;
  }
}

TEST(Handshake, TheIncarnationIsProved) {
  NodeHandshake node(keyOf(1), claim, {1});
  CoordinatorHandshake coordinator(keyOf(1), 42, {2});
  std::vector<uint8_t> challenge, ignored;
  ASSERT_TRUE(coordinator.receive(node.hello(), challenge));
  challenge[12] ^= 1;
  EXPECT_FALSE(node.receive(challenge, ignored));
}

TEST(Handshake, AnotherProtocolIsNamedOnBothSides) {
  NodeHandshake node(keyOf(1), {netProtocol + 1, 1, 2, 99}, {1});
  CoordinatorHandshake coordinator(keyOf(1), 42, {2});
  std::vector<uint8_t> challenge, ignored;
  Result<void> taken = coordinator.receive(node.hello(), challenge);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().message,
            fmt::format("it speaks protocol {}, and this machine {}",
                        netProtocol + 1, netProtocol));
  taken = node.receive(challenge, ignored);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().message,
            fmt::format("it speaks protocol {}, and this machine {}: "
                        "install the same version on both",
                        netProtocol, netProtocol + 1));
  EXPECT_EQ(taken.error().fault, Error::Fault::Input);
}

TEST(Handshake, OtherProgramsAreFoundAtTheirFirstBytes) {
  CoordinatorHandshake coordinator(keyOf(1), 42, {2});
  std::vector<uint8_t> ignored, http{'G', 'E', 'T', ' '};
  EXPECT_FALSE(coordinator.receive(http, ignored));
  EXPECT_TRUE(ignored.empty()); // a scanner learns nothing
  NodeHandshake node(keyOf(1), claim, {1});
  Result<void> taken = node.receive(http, ignored);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().message, "another program answers there");
}

TEST(Handshake, NothingIsKeptBeyondTheBound) {
  CoordinatorHandshake coordinator(keyOf(1), 42, {2});
  NodeHandshake node(keyOf(1), claim, {1});
  std::vector<uint8_t> challenge, ignored, many(mostBytesBeforeProof + 1);
  ASSERT_TRUE(coordinator.receive(node.hello(), challenge));
  for (Result<void> taken :
       {coordinator.receive(many, ignored), node.receive(many, ignored)}) {
    ASSERT_FALSE(taken);
    EXPECT_NE(taken.error().message.find("more than 4096 bytes before a proof"),
              std::string::npos)
        << taken.error().message;
  }
}

TEST(Handshake, WhatFollowsTheProofIsKept) {
  NodeHandshake node(keyOf(1), claim, {1});
  CoordinatorHandshake coordinator(keyOf(1), 42, {2});
  std::vector<uint8_t> challenge, proof, ignored;
  ASSERT_TRUE(coordinator.receive(node.hello(), challenge));
  ASSERT_TRUE(node.receive(challenge, proof));
  proof.insert(proof.end(), {1, 2, 3});
  ASSERT_TRUE(coordinator.receive(proof, ignored));
  EXPECT_EQ(coordinator.rest(), (std::vector<uint8_t>{1, 2, 3}));
}

} // namespace
} // namespace polyrank::runtime::net
