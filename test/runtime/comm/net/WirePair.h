// Two ranks that have a wire between them, and note what they get.

#pragma once

#include "runtime/comm/net/TcpWire.h"
#include "support/Futex.h"

#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>

namespace polyrank::runtime::net::test {

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
  void gone(int peer, const std::string &reason) override {
    lost.push_back(peer);
    why = reason;
  }

  Bytes body;
  std::vector<std::pair<Frame, Bytes>> got;
  std::map<int, uint32_t> peers;
  std::vector<int> lost;
  std::string why; // the last one is gone
  int handed = 0;
  Descriptor bell{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::unique_ptr<Wire> wire;
};

inline Descriptor listenNow() {
  auto found = listenAt("127.0.0.1", 0, false);
  return std::move(found->front());
}

inline Result<void> turn(Wire &wire, int milliseconds) {
  if (Result<void> waited = wire.await(milliseconds); !waited)
    return waited;
  return wire.progress();
}

inline Result<std::unique_ptr<Wire>> makeTcp(const TcpOptions &options,
                                             const JobKey &key,
                                             Descriptor listener, int bell,
                                             WireUser &user) {
  POLYRANK_ASSIGN(
      wire, TcpWire::create(options, key, std::move(listener), bell, user));
  return std::unique_ptr<Wire>(std::move(wire));
}

/// Two ranks, on a machine each.
struct Pair {
  using Make = Result<std::unique_ptr<Wire>> (*)(const TcpOptions &options,
                                                 const JobKey &key,
                                                 Descriptor listener, int bell,
                                                 WireUser &user);
  explicit Pair(Make make, uint8_t keyOfFirst = 1,
                uint64_t incarnationOfFirst = 7)
      : make(make) {
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
  /// Both end at the same time, since a wire may wait for the other one.
  ~Pair() {
    std::thread other([this] { ranks[0].wire.reset(); });
    ranks[1].wire.reset();
    other.join();
  }
  void begin() {
    for (int rank : {0, 1}) {
      auto wire =
          make(optionsOf[rank], JobKey(keys[rank]), std::move(listeners[rank]),
               ranks[rank].bell.get(), ranks[rank]);
      ASSERT_TRUE(wire) << wire.error().message;
      ranks[rank].wire = std::move(*wire);
    }
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

  Make make;
  TcpOptions optionsOf[2];
  std::array<uint8_t, 32> keys[2];
  Descriptor listeners[2];
  uint16_t ports[2];
  Rank ranks[2];
};

inline Payload payloadOf(size_t size, uint8_t first) {
  auto bytes = std::make_shared<Bytes>(size);
  for (size_t i = 0; i < size; ++i)
    (*bytes)[i] = std::byte(first + i * 7);
  std::span<const std::byte> span(*bytes);
  return {span, std::move(bytes), std::make_shared<int>(0)};
}

inline Frame frameOf(FrameKind kind, uint64_t operation) {
  Frame frame;
  frame.kind = kind;
  frame.operation = operation;
  return frame;
}

} // namespace polyrank::runtime::net::test
