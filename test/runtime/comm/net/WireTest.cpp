// What every wire between two ranks does: what arrives, and what does not.

#include "runtime/comm/net/Ucx.h"
#include "test/runtime/comm/net/TestUcx.h"
#include "test/runtime/comm/net/WirePair.h"

#include <algorithm>
#include <poll.h>

namespace polyrank::runtime::net {
namespace {

using namespace test;

struct WireUnderTest {
  std::string name;
  Pair::Make make;

  friend void PrintTo(const WireUnderTest &wire, std::ostream *out) {
    *out << wire.name;
  }
};

class WireTest : public testing::TestWithParam<WireUnderTest> {
  void SetUp() override {
    if (std::string reason = whyNoUcx();
        GetParam().name == "Ucx" && !reason.empty())
      GTEST_SKIP() << reason;
  }
};

TEST_P(WireTest, FramesArriveInOrderAndWhole) {
  Pair pair(GetParam().make);
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

TEST_P(WireTest, AnotherKeyOrStartOfTheJobIsNoPeer) {
  Pair key(GetParam().make, 2);
  key.begin();
  EXPECT_NE(
      key.work([&] { return key.isConnected(); }).find("it has another key"),
      std::string::npos);
  // The rank that is called does not answer a rank of another start.
  Pair start(GetParam().make, 1, 8);
  start.optionsOf[0].patience = 100'000'000;
  start.begin();
  EXPECT_NE(start.work([&] { return start.isConnected(); })
                .find("does not answer rank 0"),
            std::string::npos);
}

TEST_P(WireTest, WhoeverElseConnectsChangesNothing) {
  Pair pair(GetParam().make);
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

TEST_P(WireTest, APeerThatIsGoneIsToldOnceAndAfterWhatItSaid) {
  Pair pair(GetParam().make);
  pair.begin();
  ASSERT_EQ(pair.work([&] { return pair.isConnected(); }), "");
  pair.ranks[0].wire->send(1, frameOf(FrameKind::Leave, 0), {});
  ASSERT_TRUE(turn(*pair.ranks[0].wire, 0));
  // A wire may wait until the other one has taken what it sent.
  std::thread end([&] { pair.ranks[0].wire.reset(); });
  Rank &rank = pair.ranks[1];
  int64_t until = monotonicNanoseconds() + 5'000'000'000;
  for (int after = 0; after < 100 && monotonicNanoseconds() < until;
       after += !rank.lost.empty()) {
    if (!turn(*rank.wire, 1)) {
      ADD_FAILURE() << "a peer that ends is no error";
      break;
    }
    rank.wire->send(0, frameOf(FrameKind::Copy, 1), payloadOf(1000, 1));
  }
  end.join();
  EXPECT_EQ(rank.got.size(), 1u);
  EXPECT_EQ(rank.lost, std::vector<int>{0});
}

// Nobody takes data for checked that the sender has not summed.
TEST_P(WireTest, RanksThatDisagreeOnChecksumsAreToldSo) {
  for (int without : {0, 1}) {
    Pair pair(GetParam().make);
    pair.optionsOf[without].checksData = false;
    pair.begin();
    pair.ranks[0].wire->send(1, frameOf(FrameKind::Copy, 1), payloadOf(300, 1));
    std::string error = pair.work([&] { return !pair.ranks[1].got.empty(); });
    EXPECT_NE(error.find("has changed on its way"), std::string::npos) << error;
  }
}

INSTANTIATE_TEST_SUITE_P(, WireTest,
                         testing::Values(WireUnderTest{"Tcp", makeTcp},
                                         WireUnderTest{"Ucx", createUcxWire}),
                         [](const auto &instance) {
                           return instance.param.name;
                         });

} // namespace
} // namespace polyrank::runtime::net
