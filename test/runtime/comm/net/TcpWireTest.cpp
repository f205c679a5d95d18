// Bytes that change on a connection of TCP: what arrives, and what does not.

#include "test/runtime/comm/net/WirePair.h"

#include <algorithm>
#include <cstring>
#include <poll.h>

namespace polyrank::runtime::net {
namespace {

using namespace test;

constexpr size_t helloBytes = 76;

/// Stands between both ranks, and changes one byte of what the first one says.
struct Between {
  Between(Pair &pair, size_t at, int cut) : at(at), cut(cut) {
    port = pair.ports[1];
    pair.optionsOf[0].listeners[1].port = portOf(ear);
  }
  void pass() {
    if (front.get() < 0) {
      SocketAddress from;
      front = acceptFrom(ear, from);
      if (front.get() < 0)
        return;
      auto address = resolve("127.0.0.1", port);
      back = std::move(*beginConnect(address->front(), ""));
      pollfd ready{back.get(), POLLOUT, 0};
      poll(&ready, 1, 1000);
    }
    pass(front, back, true);
    pass(back, front, false);
  }
  void pass(const Descriptor &from, const Descriptor &to, bool changes) {
    uint8_t bytes[4096];
    ssize_t count = recv(from.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
    if (count == 0 && again && !changes) { // the called rank has refused
      front.close(), back.close();
      return;
    }
    if (count == 0)
      shutdown(to.get(), SHUT_WR);
    if (count <= 0)
      return;
    size_t first = changes ? passed : count;
    if (changes)
      passed += count;
    if (changes && at >= first && at < first + count) {
      if (cut) { // leaves bytes out
        (void)send(to.get(), bytes, at - first, MSG_NOSIGNAL);
        size_t rest = first + count - at;
        size_t left = std::min<size_t>(rest, cut);
        (void)send(to.get(), bytes + (at - first) + left, rest - left,
                   MSG_NOSIGNAL);
        return;
      }
      bytes[at - first] ^= 0x10;
    }
    (void)send(to.get(), bytes, count, MSG_NOSIGNAL);
  }

  Descriptor ear = listenNow(), front, back;
  uint16_t port;
  size_t at, passed = 0;
  int cut;
  bool again = false; // stands between the next connection, too
};

// A byte of the proof, of a header or of a payload.
TEST(TcpWire, WhateverChangesOnTheWayNothingWrongArrives) {
  constexpr size_t proof = helloBytes + 32, frames = 2 * Frame::size + 300 + 50;
  for (int cut : {0, 1, 64}) {
    int arrivedFrames = 0;
    for (size_t at = 0; at < proof + frames; at += cut          ? 31
                                                   : at < proof ? 5
                                                                : 3) {
      Pair pair(makeTcp);
      Between between(pair, at, cut);
      pair.optionsOf[0].patience = 20'000'000;
      pair.begin();
      pair.ranks[0].wire->send(1, frameOf(FrameKind::Copy, 1),
                               payloadOf(300, 1));
      pair.ranks[0].wire->send(1, frameOf(FrameKind::Copy, 2),
                               payloadOf(50, 9));
      pair.ranks[0].wire->send(1, frameOf(FrameKind::Bye, 3), {});
      // A change of the proof, and bytes that are missing, may only make it
      // wait.
      bool isFound = at >= proof && cut == 0;
      int64_t begin = monotonicNanoseconds();
      std::string error = pair.work(
          [&] {
            return pair.ranks[1].got.size() == 3 ||
                   (!isFound && monotonicNanoseconds() - begin > 60'000'000);
          },
          [&] { between.pass(); });
      const auto &got = pair.ranks[1].got;
      EXPECT_TRUE(got.size() < 3) << "byte " << at << ", cut " << cut;
      for (size_t n = 0; n < got.size(); ++n) {
        Payload expected = n == 0 ? payloadOf(300, 1) : payloadOf(50, 9);
        EXPECT_EQ(got[n].first.operation, n + 1);
        EXPECT_TRUE(std::ranges::equal(got[n].second, expected.bytes))
            << "byte " << at << ", cut " << cut;
      }
      arrivedFrames += int(got.size());
      if (isFound) {
        EXPECT_NE(error.find("has changed on its way"), std::string::npos)
            << at << ": " << error;
      }
    }
    EXPECT_GT(arrivedFrames, 0); // the first one, before the second changes
  }
}

// The proof is refused without a word, and whoever has sent it calls again.
TEST(TcpWire, AProofThatChangesOnTheWayIsGivenAgain) {
  Pair pair(makeTcp);
  Between between(pair, helloBytes + 5, 0);
  between.again = true;
  pair.begin();
  pair.ranks[0].wire->send(1, frameOf(FrameKind::Copy, 1), payloadOf(300, 1));
  const auto &got = pair.ranks[1].got;
  EXPECT_EQ(pair.work([&] { return got.size() == 1; }, [&] { between.pass(); }),
            "");
}

// Messages about data have checksums also where data has none.
TEST(TcpWire, WithoutChecksumsOfDataMessagesAreChecked) {
  for (FrameKind kind : {FrameKind::Value, FrameKind::Copy, FrameKind::Partial,
                         FrameKind::Result, FrameKind::Border, FrameKind::Start,
                         FrameKind::Group, FrameKind::Wait, FrameKind::Sent}) {
    Pair pair(makeTcp);
    constexpr size_t proof = helloBytes + 32;
    Between between(pair, proof + Frame::size + 7, 0);
    for (TcpOptions &options : pair.optionsOf)
      options.checksData = false;
    pair.begin();
    pair.ranks[0].wire->send(1, frameOf(kind, 1), payloadOf(300, 1));
    const auto &got = pair.ranks[1].got;
    std::string error =
        pair.work([&] { return got.size() == 1; }, [&] { between.pass(); });
    if (!isData(kind)) {
      EXPECT_NE(error.find("has changed on its way"), std::string::npos)
          << nameOf(kind) << ": " << error;
      continue;
    }
    ASSERT_EQ(got.size(), 1u) << nameOf(kind) << ": " << error;
    Payload expected = payloadOf(300, 1);
    EXPECT_FALSE(std::ranges::equal(got[0].second, expected.bytes));
  }
}

} // namespace
} // namespace polyrank::runtime::net
