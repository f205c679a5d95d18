// How two ranks prove that they belong together.

#include "runtime/comm/net/RankProof.h"

#include <gtest/gtest.h>
#include <optional>
#include <string>

namespace polyrank::runtime::net {
namespace {

using Octets = std::vector<uint8_t>;

JobKey keyOf(uint8_t first) {
  std::array<uint8_t, JobKey::size> bytes{first, 2, 3};
  return JobKey(bytes);
}

Pairing pairing() {
  Pairing pair;
  pair.incarnation = 77;
  pair.plan = {1, 2, 3};
  pair.caller = 2, pair.called = 5;
  return pair;
}

/// What each end sends in one conversation.
struct Conversation {
  Octets hello, answer, proof, welcome;
  std::string error; // of the first end that refuses
  std::optional<RankProof> caller, called;
};

/// Lets both ends talk; `change` may change what is under way.
Conversation talk(const JobKey &callersKey, const Pairing &callers,
                  const JobKey &calledsKey, const Pairing &calleds,
                  void (*change)(int message, Octets &) = nullptr) {
  Conversation said;
  said.caller = RankProof::ofCaller(callersKey, callers, 100, said.hello);
  said.called = RankProof::ofCalled(calledsKey, calleds, 200);
  auto give = [&](RankProof &to, Octets &bytes, Octets &reply, int number) {
    Octets sent = bytes;
    if (change)
      change(number, sent);
    if (sent.size() != to.wanted()) {
      said.error = "length";
      return false;
    }
    Result<void> got = to.receive(sent, reply);
    if (!got)
      said.error = got.error().message;
    return bool(got);
  };
  Octets nothing;
  (void)(give(*said.called, said.hello, said.answer, 0) &&
         give(*said.caller, said.answer, said.proof, 1) &&
         give(*said.called, said.proof, said.welcome, 2) &&
         give(*said.caller, said.welcome, nothing, 3));
  return said;
}

TEST(RankProof, TwoRanksOfOneStartOfTheJobFindEachOther) {
  Pairing expected = pairing();
  expected.caller = 0; // it does not know who calls
  Conversation said = talk(keyOf(1), pairing(), keyOf(1), expected);
  EXPECT_EQ(said.error, "");
  ASSERT_TRUE(said.caller->isDone() && said.called->isDone());
  EXPECT_EQ(said.caller->peer(), 5u);
  EXPECT_EQ(said.caller->process(), 200u);
  EXPECT_EQ(said.called->peer(), 2u);
  EXPECT_EQ(said.called->process(), 100u);
}

TEST(RankProof, AnotherKeyIsRefusedByBoth) {
  EXPECT_EQ(talk(keyOf(1), pairing(), keyOf(2), pairing()).error,
            "it has another key"); // the caller says so first
  // A caller that does not look at the answer learns nothing.
  Octets hello, answer, ignored;
  RankProof caller = RankProof::ofCaller(keyOf(1), pairing(), 1, hello);
  RankProof called = RankProof::ofCalled(keyOf(1), pairing(), 2);
  ASSERT_TRUE(called.receive(hello, answer));
  Result<void> refused = called.receive(Octets(called.wanted(), 0), ignored);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "it has another key");
  EXPECT_FALSE(called.isDone());
}

TEST(RankProof, AnotherStartPlanOrRankIsRefused) {
  Pairing other = pairing();
  other.incarnation = 78;
  EXPECT_EQ(talk(keyOf(1), other, keyOf(1), pairing()).error,
            "it is of another start of the job");
  for (int n : {0, 1}) {
    other = pairing();
    n == 0 ? void(other.plan[15] = 1) : void(other.called = 6);
    EXPECT_EQ(talk(keyOf(1), other, keyOf(1), pairing()).error,
              "it has another plan, or calls another rank");
  }
}

TEST(RankProof, EachChangedByteEndsIt) {
  static int which, at;
  Conversation whole = talk(keyOf(1), pairing(), keyOf(1), pairing());
  size_t lengths[] = {whole.hello.size(), whole.answer.size(),
                      whole.proof.size(), whole.welcome.size()};
  for (which = 0; which < 4; ++which)
    for (at = 0; at < int(lengths[which]); ++at) {
      Conversation said = talk(keyOf(1), pairing(), keyOf(1), pairing(),
                               [](int message, Octets &bytes) {
                                 if (message == which)
                                   bytes[at] ^= 1;
                               });
      EXPECT_NE(said.error, "") << "byte " << at << " of message " << which;
      EXPECT_FALSE(said.caller->isDone());
      EXPECT_EQ(said.called->isDone(), which == 3);
    }
}

TEST(RankProof, TheCallerIsNotDoneBeforeItsProofHasArrived) {
  Octets hello, answer, proof;
  RankProof caller = RankProof::ofCaller(keyOf(1), pairing(), 1, hello);
  RankProof called = RankProof::ofCalled(keyOf(1), pairing(), 2);
  ASSERT_TRUE(called.receive(hello, answer));
  ASSERT_TRUE(caller.receive(answer, proof));
  EXPECT_FALSE(caller.isDone());
}

TEST(RankProof, WhatWasSaidOnceIsNoProofAgain) {
  Conversation before = talk(keyOf(1), pairing(), keyOf(1), pairing());
  ASSERT_EQ(before.error, "");
  // The called rank draws another number, so an old conversation does not fit.
  Octets answer, nothing;
  RankProof called = RankProof::ofCalled(keyOf(1), pairing(), 200);
  ASSERT_TRUE(called.receive(before.hello, answer));
  EXPECT_NE(answer, before.answer);
  Result<void> refused = called.receive(before.proof, nothing);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "it has another key");
  EXPECT_FALSE(called.isDone());
}

} // namespace
} // namespace polyrank::runtime::net
