// Connections between two ranks: what arrives, and what does not.

#include "runtime/comm/net/TcpWire.h"
#include "support/Futex.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace polyrank::runtime::net {
namespace {

using Bytes = std::vector<std::byte>;

/// A rank that notes what it gets.
struct Rank : WireUser {
  Result<std::byte *> placeOf(int, const Frame &frame) override {
    body.resize(frame.bytes);
    return body.data();
  }
  Result<void> arrived(int, const Frame &frame) override {
    got.push_back({frame, frame.bytes ? body : Bytes()});
    return {};
  }
  void sent(const std::shared_ptr<void> &) override { ++handed; }
  void connected(int peer, uint32_t process) override { peers[peer] = process; }
  void gone(int peer, const std::string &) override { lost.push_back(peer); }

  Bytes body;
  std::vector<std::pair<Frame, Bytes>> got;
  std::map<int, uint32_t> peers;
  std::vector<int> lost;
  int handed = 0;
  Descriptor bell{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::unique_ptr<TcpWire> wire;
};

Descriptor listenNow() {
  auto found = listenAt("127.0.0.1", 0, false);
  return std::move(found->front());
}

Result<void> turn(Wire &wire, int milliseconds) {
  if (Result<void> waited = wire.await(milliseconds); !waited)
    return waited;
  return wire.progress();
}

/// Two ranks, on a machine each.
struct Pair {
  explicit Pair(uint8_t keyOfFirst = 1, uint64_t incarnationOfFirst = 7) {
    Descriptor ears[2] = {listenNow(), listenNow()};
    TcpOptions options;
    for (const Descriptor &ear : ears)
      options.listeners.push_back({"127.0.0.1", portOf(ear)});
    for (int rank : {0, 1}) {
      options.self = options.firstNear = rank;
      options.pairing.incarnation = rank == 0 ? incarnationOfFirst : 7;
      options.process = 1000 + rank;
      std::array<uint8_t, 32> key{rank == 0 ? keyOfFirst : uint8_t(1)};
      ports[rank] = portOf(ears[rank]);
      optionsOf[rank] = options;
      listeners[rank] = std::move(ears[rank]);
      keys[rank] = key;
    }
  }
  void begin() {
    for (int rank : {0, 1})
      ranks[rank].wire = *TcpWire::create(optionsOf[rank], JobKey(keys[rank]),
                                          std::move(listeners[rank]),
                                          ranks[rank].bell.get(), ranks[rank]);
  }
  /// Lets both work until `isOver`, or one of them fails, whose error this
  /// returns.
  std::string work(const std::function<bool()> &isOver,
                   const std::function<void()> &between = {}) {
    int64_t end = monotonicNanoseconds() + 5'000'000'000;
    while (!isOver()) {
      if (monotonicNanoseconds() > end)
        return "nothing happens";
      for (Rank &rank : ranks)
        if (Result<void> done = turn(*rank.wire, 1); !done)
          return done.error().message;
      if (between)
        between();
    }
    return "";
  }
  bool isConnected() const {
    return ranks[0].peers.size() == 1 && ranks[1].peers.size() == 1;
  }

  TcpOptions optionsOf[2];
  std::array<uint8_t, 32> keys[2];
  Descriptor listeners[2];
  uint16_t ports[2];
  Rank ranks[2];
};

Payload payloadOf(size_t size, uint8_t first) {
  auto bytes = std::make_shared<Bytes>(size);
  for (size_t i = 0; i < size; ++i)
    (*bytes)[i] = std::byte(first + i * 7);
  std::span<const std::byte> span(*bytes);
  return {span, std::move(bytes), std::make_shared<int>(0)};
}

Frame frameOf(FrameKind kind, uint64_t operation) {
  Frame frame;
  frame.kind = kind;
  frame.operation = operation;
  return frame;
}

TEST(TcpWire, FramesArriveInOrderAndWhole) {
  Pair pair;
  pair.begin();
  const size_t sizes[] = {0, 1, 100, mostFrameBytes, 5000, 0, 65536};
  // What is sent before the other one is there waits for it.
  for (int rank : {0, 1})
    for (size_t n = 0; n < std::size(sizes); ++n)
      pair.ranks[rank].wire->send(1 - rank, frameOf(FrameKind::Copy, n),
                                  payloadOf(sizes[n], uint8_t(n)));
  EXPECT_EQ(pair.work([&] {
    return pair.ranks[0].got.size() == std::size(sizes) &&
           pair.ranks[1].got.size() == std::size(sizes);
  }),
            "");
  for (int rank : {0, 1}) {
    const Rank &each = pair.ranks[rank];
    EXPECT_EQ(each.peers.at(1 - rank), 1000u + (1 - rank));
    EXPECT_EQ(each.handed, int(std::size(sizes)));
    EXPECT_EQ(each.wire->queued(1 - rank), 0u);
    for (size_t n = 0; n < std::size(sizes); ++n) {
      Payload expected = payloadOf(sizes[n], uint8_t(n));
      EXPECT_EQ(each.got[n].first.operation, n);
      EXPECT_TRUE(std::ranges::equal(each.got[n].second, expected.bytes));
    }
  }
}

TEST(TcpWire, AnotherKeyOrStartOfTheJobIsNoPeer) {
  Pair key(2);
  key.begin();
  EXPECT_NE(
      key.work([&] { return key.isConnected(); }).find("it has another key"),
      std::string::npos);
  // The rank that is called does not answer a rank of another start.
  Pair start(1, 8);
  start.optionsOf[0].patience = 100'000'000;
  start.begin();
  EXPECT_NE(start.work([&] { return start.isConnected(); })
                .find("does not answer rank 0"),
            std::string::npos);
}

TEST(TcpWire, WhoeverElseConnectsChangesNothing) {
  Pair pair;
  std::vector<Descriptor> strangers;
  auto call = [&] {
    auto address = resolve("127.0.0.1", pair.ports[1]);
    strangers.push_back(std::move(*beginConnect(address->front(), "")));
    pollfd ready{strangers.back().get(), POLLOUT, 0};
    poll(&ready, 1, 1000);
  };
  pair.begin();
  for (int n = 0; n < 200; ++n) {
    call();
    // Nothing, something, or as much as it takes.
    std::string text(size_t(n) % 3 * 200, 'G');
    (void)send(strangers.back().get(), text.data(), text.size(), MSG_NOSIGNAL);
  }
  EXPECT_EQ(pair.work([&] { return pair.isConnected(); }), "");
  pair.ranks[0].wire->send(1, frameOf(FrameKind::Copy, 3), payloadOf(10, 1));
  EXPECT_EQ(pair.work([&] { return pair.ranks[1].got.size() == 1; }), "");
  EXPECT_EQ(pair.ranks[1].peers.size(), 1u);
}

TEST(TcpWire, APeerThatIsGoneIsToldOnceAndAfterWhatItSaid) {
  Pair pair;
  pair.begin();
  ASSERT_EQ(pair.work([&] { return pair.isConnected(); }), "");
  pair.ranks[0].wire->send(1, frameOf(FrameKind::Leave, 0), {});
  ASSERT_TRUE(turn(*pair.ranks[0].wire, 0));
  pair.ranks[0].wire.reset();
  Rank &rank = pair.ranks[1];
  for (int n = 0; n < 100; ++n) {
    ASSERT_TRUE(turn(*rank.wire, 1));
    rank.wire->send(0, frameOf(FrameKind::Copy, 1), payloadOf(1000, 1));
  }
  EXPECT_EQ(rank.got.size(), 1u);
  EXPECT_EQ(rank.lost, std::vector<int>{0});
}

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
};

// A byte of the proof, of a header or of a payload.
TEST(TcpWire, WhateverChangesOnTheWayNothingWrongArrives) {
  constexpr size_t proof = 100 + 32, frames = 2 * Frame::size + 300 + 50;
  for (int cut : {0, 1, 64}) {
    int arrivedFrames = 0;
    for (size_t at = 0; at < proof + frames; at += cut          ? 31
                                                   : at < proof ? 5
                                                                : 3) {
      Pair pair;
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

// Messages about data have checksums also where data has none.
TEST(TcpWire, WithoutChecksumsOfDataMessagesAreChecked) {
  for (FrameKind kind : {FrameKind::Value, FrameKind::Copy, FrameKind::Partial,
                         FrameKind::Result, FrameKind::Border, FrameKind::Start,
                         FrameKind::Group, FrameKind::Wait, FrameKind::Sent}) {
    Pair pair;
    constexpr size_t proof = 100 + 32;
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

// Nobody takes data for checked that the sender has not summed.
TEST(TcpWire, RanksThatDisagreeOnChecksumsAreToldSo) {
  for (int without : {0, 1}) {
    Pair pair;
    pair.optionsOf[without].checksData = false;
    pair.begin();
    pair.ranks[0].wire->send(1, frameOf(FrameKind::Copy, 1), payloadOf(300, 1));
    std::string error = pair.work([&] { return !pair.ranks[1].got.empty(); });
    EXPECT_NE(error.find("has changed on its way"), std::string::npos) << error;
  }
}

} // namespace
} // namespace polyrank::runtime::net
