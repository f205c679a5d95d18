// What is done with messages that come in another order, changed or twice, as
// UCX does not let them come: the test stands between UCX and the wire.

#include "runtime/comm/net/UcxWire.h"
#include "test/runtime/comm/net/TestUcx.h"
#include "test/runtime/comm/net/WirePair.h"

#include <algorithm>
#include <cstring>

namespace polyrank::runtime::net {
namespace {

using namespace test;

/// A message that UCX has given, and the wire has not got yet.
struct Message {
  std::vector<std::byte> header;
  void *data;
  size_t size;
  ucp_am_recv_param_t how;
};

/// Stands between UCX and the second rank of a pair.
struct Between {
  static Between *now;

  Between() { now = this; }
  ~Between() { now = nullptr; }

  /// Gives the wire a message.
  void pass(Message message) const {
    ucs_status_t status =
        handler.cb(handler.arg, message.header.data(), message.header.size(),
                   message.data, message.size, &message.how);
    if (status == UCS_OK && message.size > 0)
      library.releaseData(worker, message.data);
  }
  /// What is done with a message that comes.
  std::function<void(Message)> take = [this](Message message) {
    pass(std::move(message));
  };

  static ucs_status_t setHandler(ucp_worker_h worker,
                                 const ucp_am_handler_param_t *handler) {
    if (now->handlers++ == 0) // of the first rank
      return now->library.setHandler(worker, handler);
    now->worker = worker;
    now->handler = *handler;
    ucp_am_handler_param_t mine = *handler;
    mine.cb = [](void *, const void *header, size_t headerSize, void *data,
                 size_t size, const ucp_am_recv_param_t *how) {
      auto *first = static_cast<const std::byte *>(header);
      now->take({{first, first + headerSize}, data, size, *how});
      return size > 0 ? UCS_INPROGRESS : UCS_OK;
    };
    return now->library.setHandler(worker, &mine);
  }
  static ucs_status_ptr_t send(ucp_ep_h endpoint, unsigned id,
                               const void *header, size_t headerSize,
                               const void *data, size_t size,
                               const ucp_request_param_t *how) {
    if (now->fails)
      return UCS_STATUS_PTR(UCS_ERR_ENDPOINT_TIMEOUT);
    return now->library.send(endpoint, id, header, headerSize, data, size, how);
  }
  static ucs_status_ptr_t receive(ucp_worker_h worker, void *from, void *into,
                                  size_t size, const ucp_request_param_t *how) {
    if (now->lost++ > 0)
      return now->library.receive(worker, from, into, size, how);
    now->library.releaseData(worker, from);
    return UCS_STATUS_PTR(UCS_ERR_CONNECTION_RESET);
  }
  static Result<std::unique_ptr<Wire>> make(const TcpOptions &options,
                                            const JobKey &key,
                                            Descriptor listener, int bell,
                                            WireUser &user) {
    now->changed = now->library;
    now->changed.setHandler = setHandler;
    now->changed.send = send;
    now->changed.receive = receive;
    return UcxWire::create(now->changed, options, key, std::move(listener),
                           bell, user);
  }

  UcxLibrary library = **UcxLibrary::get(), changed = library;
  ucp_worker_h worker = nullptr;
  ucp_am_handler_param_t handler{};
  int handlers = 0;
  bool fails = false;
  int lost = 1; // 0: the next large payload that comes is lost
};
Between *Between::now = nullptr;

class UcxWireTest : public testing::Test {
  void SetUp() override {
    if (std::string reason = whyNoUcx(); !reason.empty())
      GTEST_SKIP() << reason;
  }
};

/// Changes messages, of which the pair sends one of so many bytes. Returns the
/// error of the second rank, or how many frames it got.
std::string afterChange(const std::function<void(Between &, Message)> &take,
                        size_t bytes, bool checks = true,
                        FrameKind kind = FrameKind::Copy) {
  Between between;
  bool hasCome = false;
  between.take = [&](Message message) {
    hasCome = true;
    take(between, std::move(message));
  };
  Pair pair(Between::make);
  for (TcpOptions &options : pair.optionsOf)
    options.checksData = checks;
  pair.begin();
  pair.ranks[0].wire->send(1, frameOf(kind, 1), payloadOf(bytes, 1));
  std::string error = pair.work([&] { return hasCome; });
  const auto &got = pair.ranks[1].got;
  for (int turns = 0; turns < 5 && error.empty() && got.empty(); ++turns)
    error = pair.work(
        [first = true]() mutable { return !std::exchange(first, false); });
  return error.empty() ? std::to_string(got.size()) : error;
}

TEST_F(UcxWireTest, MessagesThatOvertakeEachOtherArriveInOrder) {
  const size_t sizes[] = {0, 300, 200'000, 0, 70, mostFrameBytes, 16384, 16385};
  Between between;
  std::vector<Message> kept;
  between.take = [&](Message message) {
    kept.push_back(std::move(message));
    if (kept.size() == std::size(sizes))
      while (!kept.empty()) {
        between.pass(std::move(kept.back()));
        kept.pop_back();
      }
  };
  Pair pair(Between::make);
  pair.begin();
  for (size_t n = 0; n < std::size(sizes); ++n)
    pair.ranks[0].wire->send(1, frameOf(FrameKind::Copy, n),
                             payloadOf(sizes[n], uint8_t(n)));
  const auto &got = pair.ranks[1].got;
  EXPECT_EQ(pair.work([&] { return got.size() == std::size(sizes); }), "");
  for (size_t n = 0; n < got.size(); ++n) {
    EXPECT_EQ(got[n].first.operation, n);
    EXPECT_TRUE(std::ranges::equal(got[n].second,
                                   payloadOf(sizes[n], uint8_t(n)).bytes));
  }
}

TEST_F(UcxWireTest, AHeaderThatHasChangedIsFound) {
  for (size_t at : {0, 9, 24, 30, 41, 55, 63})
    EXPECT_NE(afterChange(
                  [&](Between &between, Message message) {
                    message.header[at] ^= std::byte(4);
                    between.pass(std::move(message));
                  },
                  100)
                  .find("a header has changed on its way"),
              std::string::npos)
        << at;
}

TEST_F(UcxWireTest, WhatComesFromNobodyIsDropped) {
  EXPECT_EQ(afterChange(
                [](Between &between, Message message) {
                  message.header[Frame::size + 3] ^= std::byte(1);
                  between.pass(std::move(message));
                },
                100),
            "0");
  EXPECT_EQ(afterChange(
                [](Between &between, Message message) {
                  message.header.pop_back();
                  between.pass(std::move(message));
                },
                40'000),
            "0");
}

TEST_F(UcxWireTest, AMessageThatComesTwiceIsRefused) {
  EXPECT_NE(afterChange(
                [](Between &between, Message message) {
                  between.pass(message);
                  between.pass(message);
                },
                0)
                .find("message 0 came instead of message 1"),
            std::string::npos);
}

TEST_F(UcxWireTest, APayloadThatHasChangedIsFound) {
  auto change = [](Between &between, Message message) {
    static_cast<std::byte *>(message.data)[7] ^= std::byte(1);
    between.pass(std::move(message));
  };
  EXPECT_NE(afterChange(change, 300).find("has changed on its way"),
            std::string::npos);
  EXPECT_NE(afterChange(change, 300, false, FrameKind::Start)
                .find("has changed on its way"),
            std::string::npos);
  EXPECT_EQ(afterChange(change, 300, false), "1");
}

TEST_F(UcxWireTest, APayloadOfAnotherLengthIsRefused) {
  std::string error = afterChange(
      [](Between &between, Message message) {
        --message.size;
        between.pass(std::move(message));
      },
      300);
  EXPECT_NE(error.find("of 300 bytes came with 299"), std::string::npos)
      << error;
}

TEST_F(UcxWireTest, AMessageThatDoesNotComeIsMissed) {
  Between between;
  int come = 0;
  between.take = [&](Message message) {
    if (come++ > 0)
      between.pass(std::move(message));
  };
  Pair pair(Between::make);
  pair.begin();
  for (int n = 0; n < 400; ++n)
    pair.ranks[0].wire->send(1, frameOf(FrameKind::Bye, uint64_t(n)), {});
  std::string error = pair.work([] { return false; });
  EXPECT_NE(error.find("message 0 has not come, and "), std::string::npos)
      << error;
  EXPECT_TRUE(pair.ranks[1].got.empty());
}

TEST_F(UcxWireTest, WhatFollowsAPayloadThatIsLostIsNotTaken) {
  Between between;
  Pair pair(Between::make);
  pair.begin();
  ASSERT_EQ(pair.work([&] { return pair.isConnected(); }), "");
  between.lost = 0;
  auto send = [&](size_t bytes) {
    pair.ranks[0].wire->send(1, frameOf(FrameKind::Copy, bytes),
                             payloadOf(bytes, 1));
  };
  send(300);
  send(200'000);
  EXPECT_EQ(pair.work([&] { return between.lost > 0; }), "");
  send(300);
  send(200'000);
  Rank &rank = pair.ranks[1];
  EXPECT_EQ(pair.work([&] { return !rank.lost.empty(); }), "");
  EXPECT_EQ(rank.why, "UCX: Connection reset by remote peer");
  EXPECT_EQ(rank.got.size(), 1u);
}

TEST_F(UcxWireTest, APeerThatUcxDoesNotReachIsGoneAndSaysWhy) {
  Between between;
  Pair pair(Between::make);
  pair.begin();
  ASSERT_EQ(pair.work([&] { return pair.isConnected(); }), "");
  between.fails = true;
  Rank &rank = pair.ranks[0];
  rank.wire->send(1, frameOf(FrameKind::Copy, 1), payloadOf(300, 1));
  EXPECT_EQ(pair.work([&] { return !rank.lost.empty(); }), "");
  EXPECT_EQ(rank.why, "UCX: Endpoint timeout");
  EXPECT_EQ(rank.wire->queued(1), 0u);
  EXPECT_EQ(rank.handed, 0);
}

} // namespace
} // namespace polyrank::runtime::net
