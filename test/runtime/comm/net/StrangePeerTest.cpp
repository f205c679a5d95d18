// What a rank says of a peer on another machine that sends what no rank sends.
//
// The peer is this test: it has the connection of a rank, and answers by hand.

#include "runtime/comm/MakeCommunicator.h"
#include "runtime/comm/net/TcpWire.h"
#include "runtime/comm/shm/ControlPage.h"
#include "test/runtime/comm/Sum.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>

namespace polyrank::runtime::net {
namespace {

using test::Sum;
using Bytes = std::vector<std::byte>;

/// The body of a start; see NetCommunicator.
struct StartMessage {
  shm::OperationRecord record;
  uint64_t exchanged;
  int64_t linkTime;
  uint32_t member;
};
struct Start {
  StartMessage message;
  Bytes carried;
};
/// The body of a channel.
struct ChannelMessage {
  uint64_t bytes, offset;
  uint32_t slots, firstRecord;
};

template <typename T>
Bytes bytesOf(const T &value) {
  Bytes bytes(sizeof(T));
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

/// Rank 1, on a machine of its own.
class Peer : public WireUser {
public:
  using Answer = std::function<void(Peer &, const Frame &)>;

  void send(const Frame &frame, const Bytes &body) {
    auto owner = std::make_shared<const Bytes>(body);
    wire->send(0, frame, {*owner, owner, {}});
  }
  /// Says that rank 1 starts what rank 0 has started, with the same inputs,
  /// unless `change` makes it differ.
  void start(const Frame &frame,
             const std::function<void(Start &)> &change = {}) {
    Start start;
    std::memcpy(&start.message, body.data(), sizeof(StartMessage));
    start.message.member = 1;
    start.carried.assign(body.begin() + sizeof(StartMessage), body.end());
    if (change)
      change(start);
    Bytes all = bytesOf(start.message);
    all.insert(all.end(), start.carried.begin(), start.carried.end());
    send(frame, all);
  }

  Result<std::byte *> placeOf(int, const Frame &frame) override {
    body.resize(frame.bytes);
    return body.data();
  }
  Result<void> arrived(int, const Frame &frame) override {
    if (frame.bytes == 0)
      body.clear();
    ++got[frame.kind];
    if (frame.kind == FrameKind::Group) {
      key = frame.group;
      onGroup(*this, frame);
    } else if (frame.kind == FrameKind::Start) {
      onStart(*this, frame);
    } else if (isData(frame.kind)) {
      onData(*this, frame);
    } else if (frame.kind == FrameKind::Leave) {
      Frame answer;
      answer.kind = FrameKind::Bye;
      send(answer, {});
    }
    return {};
  }
  void sent(const std::shared_ptr<void> &) override {}
  void connected(int, uint32_t) override {}
  void gone(int, const std::string &) override {}

  Bytes body; // of the last message
  uint64_t key = 0;
  std::map<FrameKind, int> got;
  std::unique_ptr<TcpWire> wire;
  Answer onGroup = [](Peer &peer, const Frame &frame) {
    peer.send(frame, peer.body);
  };
  Answer onStart = [](Peer &peer, const Frame &frame) { peer.start(frame); };
  Answer onData = [](Peer &, const Frame &) {};
};

/// Runs rank 0, which is a rank as any, until it ends. Returns what it says, or
/// why the peer takes no more of it. `checks` says whether data has checksums.
std::string meet(Peer &peer, const test::RankMain &main, bool checks = true) {
  RankMachines machines;
  machines.ranks = {1, 1};
  machines.address = "127.0.0.1";
  local::JobOptions options;
  options.ranks = 2;
  options.here = RankRange{0, 1};
  auto job = local::createJob(options);
  CommunicatorNeeds needs;
  needs.channelBytes = {1 << 16, 1 << 16};
  needs.machines = machines;
  needs.checksWire = checks;
  auto host = hostCommunicators(needs);
  auto ears = listenAt("127.0.0.1", 0, false);
  if (!job || !host || !ears)
    return "no job";
  CommunicatorPeers peers;
  peers.incarnation = 77;
  peers.key[1] = 9;
  peers.listeners = {{"127.0.0.1", (*host)->ports()[0]},
                     {"127.0.0.1", portOf(ears->front())}};
  if (!(*host)->connect(peers))
    return "not connected";
  TcpOptions mine;
  mine.self = mine.firstNear = 1;
  mine.listeners = peers.listeners;
  mine.pairing.incarnation = peers.incarnation;
  mine.checksData = checks;
  Descriptor bell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  peer.wire = *TcpWire::create(mine, JobKey(peers.key),
                               std::move(ears->front()), bell.get(), peer);
  std::string outcome;
  std::atomic<bool> isOver = false;
  std::thread rank([&] {
    [&] {
      auto member = local::joinJob((*job)->descriptors(), 0);
      std::vector<int> files;
      for (int file : (*host)->descriptors())
        files.push_back(dup(file)); // attaching takes them over
      auto communicator = attachCommunicator(files, **member, {});
      if (!communicator) {
        outcome = communicator.error().message;
        return;
      }
      IdleDevice device;
      if (auto done = test::registerMemory(device, **communicator, 4 << 20);
          !done)
        outcome = done.error().message;
      else
        outcome = main(**communicator);
    }();
    isOver = true;
  });
  std::string refusal;
  while (!isOver && refusal.empty()) {
    Result<void> done = peer.wire->await(1);
    if (done)
      done = peer.wire->progress();
    if (!done)
      refusal = done.error().message;
  }
  if (!refusal.empty())
    peer.wire.reset(); // rank 0 would wait for more
  rank.join();
  return refusal.empty() ? outcome : refusal;
}

/// Rank 0 sums so many elements with rank 1.
std::string sum(Peer &peer, int64_t elements, bool checks = true) {
  auto main = [=](Communicator &communicator) -> std::string {
    Sum sum(communicator, elements);
    for (int64_t e = 0; e < elements; ++e)
      sum.input[e] = float(e);
    if (auto done = communicator.run(sum.collective); !done)
      return done.error().message;
    for (int64_t e = 0; e < elements; ++e)
      if (sum.output[e] != 2 * float(e))
        return "element " + std::to_string(e) + " is " +
               std::to_string(sum.output[e]);
    return "";
  };
  return meet(peer, main, checks);
}

void expectPart(const std::string &text, const std::string &part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(StrangePeer, OneThatDoesWhatARankDoesIsNoStranger) {
  Peer peer;
  EXPECT_EQ(sum(peer, 8), "");
  // The start carries all that there is to say.
  std::map<FrameKind, int> expected{
      {FrameKind::Group, 1}, {FrameKind::Start, 1}, {FrameKind::Leave, 1}};
  peer.got.erase(FrameKind::Wait);
  EXPECT_EQ(peer.got, expected);
}

TEST(StrangePeer, StartsThatCarryWhatTheyShouldNotAreRefused) {
  struct {
    std::function<void(Start &)> change;
    const char *part;
  } rows[] = {
      {[](Start &start) { start.carried.pop_back(); },
       "carries 31 bytes, says 32, and may carry 8192"},
      {[](Start &start) {
         start.carried.resize(8192 + 4);
         start.message.record.carried = 8192 + 4;
       },
       "carries 8196 bytes, says 8196, and may carry 8192"},
      {[](Start &start) {
         start.carried.resize(16);
         start.message.record.carried = 16;
       },
       "ranks disagree on what to do next"},
      {[](Start &start) { start.message.member = 0; },
       "is of no member of the group"},
      {[](Start &start) { start.message.member = 2; },
       "is of no member of the group"},
  };
  for (auto &row : rows) {
    Peer peer;
    peer.onStart = [&](Peer &peer, const Frame &frame) {
      peer.start(frame, row.change);
    };
    expectPart(sum(peer, 8), row.part);
  }
}

TEST(StrangePeer, MessagesThatAreNoneAreRefused) {
  struct {
    FrameKind kind;
    Bytes body;
    const char *part;
  } rows[] = {
      {FrameKind::Group, bytesOf(int32_t(1)), "is not for rank 0"},
      {FrameKind::Group, bytesOf(int32_t(2)), "has a rank 2"},
      {FrameKind::Group, bytesOf('x'), "has no ranks"},
      {FrameKind::Group, bytesOf(int32_t(0)), "has another key than its ranks"},
      {FrameKind::Start, bytesOf('x'), "is of no group"},
      {FrameKind::Wait, bytesOf('x'), "is none"},
      {FrameKind::Channel, bytesOf('x'), "is none"},
      {FrameKind::Sent, bytesOf('x'), "is of no channel"},
  };
  for (auto &row : rows) {
    Peer peer;
    peer.onStart = [&](Peer &peer, Frame frame) {
      frame.kind = row.kind;
      peer.send(frame, row.body);
    };
    expectPart(sum(peer, 8), row.part);
  }
}

/// A piece of what rank 1 sends in a sum of 200,000 elements, of which it sends
/// the second half as they are.
Frame pieceOf(const Frame &start) {
  Frame frame;
  frame.kind = FrameKind::Partial;
  frame.group = start.group;
  frame.operation = start.operation;
  frame.unit = 1;
  frame.stage = 1;
  frame.dtype = static_cast<uint8_t>(ElementType::F32);
  frame.reduction = static_cast<uint8_t>(Reduction::Sum);
  return frame;
}

TEST(StrangePeer, PiecesThatAreNotTheNextAreRefused) {
  constexpr size_t whole = 1 << 18; // bytes of a piece
  struct {
    std::function<void(Frame &)> change;
    size_t bytes;
    const char *part;
  } rows[] = {
      {[](Frame &frame) { frame.piece = 1; }, whole, "is not the next"},
      {[](Frame &frame) { frame.piece = 2; }, whole, "is not the next"},
      {[](Frame &frame) { frame.unit = 0; }, whole, "is not the next"},
      {[](Frame &frame) { frame.unit = 2; }, whole, "is not the next"},
      {[](Frame &frame) { frame.stage = 0; }, whole, "is not the next"},
      {[](Frame &frame) { frame.stage = 2; }, whole, "is not the next"},
      {[](Frame &frame) {
         frame.kind = FrameKind::Result;
         frame.unit = 0;
         frame.piece = 1;
       },
       whole, "is not the next"},
      {[](Frame &frame) {
         frame.kind = FrameKind::Copy;
         frame.unit = 1;
       },
       whole, "is not the next"},
      {[](Frame &) {}, whole - 4, "should have 262144"},
      {[](Frame &frame) { frame.operation += 1; }, whole,
       "is of none that rank 0 has started"},
      {[](Frame &frame) { frame.dtype = uint8_t(ElementType::I32); }, whole,
       "is no part of all_reduce sum f32 of 200000 elements"},
      {[](Frame &frame) { frame.reduction = uint8_t(Reduction::Max); }, whole,
       "is no part of all_reduce sum f32 of 200000 elements"},
  };
  for (auto &row : rows) {
    Peer peer;
    peer.onStart = [&](Peer &peer, const Frame &start) {
      peer.start(start);
      Frame frame = pieceOf(start);
      row.change(frame);
      peer.send(frame, Bytes(row.bytes));
    };
    expectPart(sum(peer, 200'000), row.part);
  }
}

TEST(StrangePeer, DataHasTheChecksumsThatTheLauncherWants) {
  for (bool checks : {false, true}) {
    Peer peer;
    peer.onData = [&](Peer &peer, const Frame &frame) {
      EXPECT_EQ(frame.checksum != 0, checks);
      Frame abort;
      abort.kind = FrameKind::Abort;
      peer.send(abort, bytesOf('x'));
    };
    EXPECT_EQ(sum(peer, 200'000, checks), "x");
    EXPECT_GT(peer.got[FrameKind::Partial], 0);
  }
}

/// Rank 0 receives from rank 1 through one slot, and receives nothing yet.
std::string waitWithChannel(Peer &peer) {
  return meet(peer, [](Communicator &communicator) -> std::string {
    auto group = communicator.createGroup(test::allRanks(communicator));
    Channel channel;
    channel.group = *group;
    channel.from = 1;
    channel.to = 0;
    channel.id = 9;
    channel.bytes = 64;
    if (auto end = communicator.openChannel(channel); !end)
      return end.error().message;
    auto met = communicator.exchange(*group, 0);
    return met ? "" : met.error().message;
  });
}

TEST(StrangePeer, ValuesBeforeTheirSlotIsFreeAreRefused) {
  auto frameOf = [](FrameKind kind, uint64_t number, uint32_t piece = 0) {
    Frame frame;
    frame.kind = kind;
    frame.group = 9;
    frame.operation = number;
    frame.piece = piece;
    return frame;
  };
  const Bytes value(64), longer(65), record = bytesOf(shm::TransferRecord{});
  struct {
    std::vector<std::pair<Frame, Bytes>> frames;
    const char *part;
  } rows[] = {
      {{{frameOf(FrameKind::Value, 1), value}},
       "comes before its slot is free"},
      {{{frameOf(FrameKind::Sent, 1), record}},
       "comes before its slot is free"},
      {{{frameOf(FrameKind::Value, 0), value},
        {frameOf(FrameKind::Sent, 0), record},
        {frameOf(FrameKind::Value, 1), value}},
       "comes before its slot is free"},
      {{{frameOf(FrameKind::Sent, 0), record},
        {frameOf(FrameKind::Sent, 1), record}},
       "comes before its slot is free"},
      {{{frameOf(FrameKind::Value, 0), longer}},
       "goes beyond the 64 bytes of a value"},
      {{{frameOf(FrameKind::Value, 0, 1), value}},
       "goes beyond the 64 bytes of a value"},
      {{{frameOf(FrameKind::Received, 0), record}}, "is of no channel"},
  };
  for (auto &row : rows) {
    Peer peer;
    peer.onStart = [&](Peer &peer, const Frame &) {
      peer.send(frameOf(FrameKind::Channel, 0),
                bytesOf(ChannelMessage{64, 0, 1, 0}));
      for (auto &[frame, body] : row.frames)
        peer.send(frame, body);
    };
    expectPart(waitWithChannel(peer), row.part);
  }
}

} // namespace
} // namespace polyrank::runtime::net
