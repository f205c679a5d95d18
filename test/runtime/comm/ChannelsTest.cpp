// Sends and receives between ranks, over every communicator.

#include "runtime/device/DeviceAccess.h"
#include "test/runtime/comm/CommunicatorCases.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>
#include <unistd.h>

namespace polyrank::runtime::test {
namespace {

class ChannelsTest : public CommunicatorTest {};

/// Returns a channel from rank 0 to rank 1 of two.
Channel channelOf(Group group, uint32_t slots, uint64_t bytes) {
  Channel channel;
  channel.group = group;
  channel.from = 0, channel.to = 1;
  channel.slots = slots;
  channel.id = 7;
  channel.bytes = bytes;
  return channel;
}

/// Returns value number `number`, of `bytes` bytes.
std::vector<std::byte> valueOf(uint64_t number, uint64_t bytes) {
  std::vector<std::byte> value(bytes);
  for (uint64_t i = 0; i < bytes; ++i)
    value[i] = std::byte((number * 131 + i * 7 + i / 256) & 0xff);
  return value;
}

DeviceSpan spanOf(std::vector<std::byte> &value) {
  return DeviceAccess::spanOf(value);
}

int64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

TEST_P(ChannelsTest, ValuesArriveInOrderWhoeverIsFaster) {
  for (uint64_t bytes : {0, 1, 60, 64, 4096, 3 << 20})
    for (uint32_t slots : {1u, 2u, 3u})
      for (int slow : {-1, 0, 1})
        expectAllWell(
            {.ranks = 2, .slotBytes = 16 << 20},
            [=](Communicator &communicator) -> std::string {
              auto group = communicator.createGroup(Ranks{0, 1});
              auto end =
                  communicator.openChannel(channelOf(*group, slots, bytes));
              if (!end)
                return end.error().message;
              for (uint64_t n = 0; n < 10; ++n) {
                if (communicator.rank() == slow)
                  usleep(500);
                std::vector<std::byte> value = valueOf(n, bytes), got(bytes);
                if (communicator.rank() == 0) {
                  auto sent = communicator.send(*end, spanOf(value));
                  if (!sent)
                    return sent.error().message;
                } else {
                  auto received = communicator.receive(*end, spanOf(got));
                  if (!received)
                    return received.error().message;
                  if (got != value)
                    return "value " + std::to_string(n) + " is another one";
                }
              }
              CollectiveStatistics counted =
                  communicator.statistics()[transferStatistics];
              uint64_t sent = communicator.rank() == 0 ? 10 * bytes : 0;
              return counted.calls == 10 && counted.bytes == sent ? ""
                                                                  : "counts";
            });
}

// With K slots K values are sent before any is received, and no more.
TEST_P(ChannelsTest, ASenderWaitsOnlyWhileNoSlotIsFree) {
  constexpr uint32_t slots = 3;
  expectAllWell({.ranks = 2}, [](Communicator &communicator) -> std::string {
    auto group = communicator.createGroup(Ranks{0, 1});
    auto end = communicator.openChannel(channelOf(*group, slots, 8));
    std::vector<std::byte> value = valueOf(0, 8);
    auto *flag =
        reinterpret_cast<std::atomic<int64_t> *>(memoryOf(communicator) + 4096);
    Transfer copy = rows(1, 1);
    copy.input = 4096, copy.output = 4160;
    Collective tell{.kind = CollectiveKind::Broadcast,
                    .dtype = ElementType::I64,
                    .group = *group};
    tell.transfers = {&copy, 1};
    if (communicator.rank() == 0) {
      for (uint32_t n = 0; n < slots; ++n)
        if (!communicator.send(*end, spanOf(value)))
          return "send";
      flag->store(1);
      if (!communicator.run(tell)) // only now the receiver begins
        return "tell";
      auto last = communicator.send(*end, spanOf(value));
      if (!last)
        return last.error().message;
      // It waited for the other rank, which slept first.
      return last->completion().lastStarter == 1 ? ""
                                                 : "did not wait for rank 1";
    }
    if (!communicator.run(tell))
      return "told";
    usleep(50'000);
    for (uint32_t n = 0; n <= slots; ++n)
      if (!communicator.receive(*end, spanOf(value)))
        return "receive";
    return "";
  });
}

TEST_P(ChannelsTest, BothDirectionsAndManyRanksAtOnce) {
  expectAllWell({.ranks = 4}, [](Communicator &communicator) -> std::string {
    int self = communicator.rank(), ranks = 4;
    auto group = communicator.createGroup(allRanks(communicator));
    // Channels to and from the next rank and the previous one.
    std::vector<ChannelEnd> ends;
    for (int step : {1, 3}) {
      Channel out = channelOf(*group, 2, 40);
      out.from = uint32_t(self), out.to = uint32_t((self + step) % ranks);
      Channel in = out;
      in.from = uint32_t((self + ranks - step) % ranks), in.to = uint32_t(self);
      for (const Channel &channel : {out, in}) {
        auto end = communicator.openChannel(channel);
        if (!end)
          return end.error().message;
        ends.push_back(*end);
      }
    }
    for (uint64_t n = 0; n < 200; ++n) {
      std::vector<std::byte> mine = valueOf(n + uint64_t(self), 40), got(40);
      for (size_t way : {0, 2})
        if (auto sent = communicator.send(ends[way], spanOf(mine)); !sent)
          return sent.error().message;
      for (size_t way : {1, 3}) {
        if (auto received = communicator.receive(ends[way], spanOf(got));
            !received)
          return received.error().message;
        int from = (self + ranks - (way == 1 ? 1 : 3)) % ranks;
        if (got != valueOf(n + uint64_t(from), 40))
          return "from rank " + std::to_string(from);
      }
    }
    return "";
  });
}

// A value arrives latency + bytes * time per byte after it was sent. Values of
// one direction go one after another; the other direction has a link of its
// own.
TEST_P(ChannelsTest, ALinkHoldsEachDirectionBack) {
  constexpr int64_t each = 20'000'000; // 15 ms + 1000 * 5 us
  expectAllWell({.ranks = 2}, [](Communicator &communicator) -> std::string {
    auto group =
        communicator.createGroup(Ranks{0, 1}, {15'000'000'000, 5'000'000});
    std::vector<ChannelEnd> ends;
    for (uint32_t from : {0u, 1u}) {
      Channel channel = channelOf(*group, 4, 1000);
      channel.from = from, channel.to = 1 - from;
      auto end = communicator.openChannel(channel);
      if (!end)
        return end.error().message;
      ends.push_back(*end);
    }
    auto self = size_t(communicator.rank());
    std::vector<std::byte> value = valueOf(0, 1000);
    if (!communicator.exchange(*group, 0))
      return "barrier";
    int64_t begin = now(), last = 0;
    for (int n = 0; n < 3; ++n) {
      auto sent = communicator.send(ends[self], spanOf(value));
      if (!sent || sent->completion().finished < begin + (n + 1) * each)
        return "sent too early";
      last = sent->completion().finished;
    }
    if (now() > last)
      return "the sender waits for the link";
    for (int n = 0; n < 3; ++n)
      if (!communicator.receive(ends[1 - self], spanOf(value)))
        return "receive";
    // Both sent at once; what the ranks are late by is not known.
    return now() - begin >= 3 * each - 5'000'000 ? "" : "arrived too early";
  });
}

// In a rehearsal times are given, nothing is copied, and no memory is taken.
TEST_P(ChannelsTest, TimesThatAreGivenGoAlong) {
  expectAllWell(
      {.ranks = 2, .slotBytes = 0},
      [](Communicator &communicator) -> std::string {
        auto group = communicator.createGroup(Ranks{0, 1});
        Channel channel = channelOf(*group, 2, 1 << 10);
        channel.hasValues = false;
        auto end = communicator.openChannel(channel);
        for (int64_t n = 0; n < 6; ++n) {
          int64_t freed = -1;
          TransferTimes there;
          auto done =
              communicator.rank() == 0
                  ? communicator.send(
                        *end, {}, {},
                        [&](int64_t free) -> Result<TransferTimes> {
                          freed = free;
                          return TransferTimes{1000 + n, 2000 + n};
                        })
                  : communicator.receive(
                        *end, {}, {},
                        [&](const TransferTimes &times) -> Result<int64_t> {
                          there = times;
                          return 5000 + n;
                        });
          if (!done)
            return done.error().message;
          if (communicator.rank() == 0 && freed != (n < 2 ? 0 : 5000 + n - 2))
            return "room " + std::to_string(n);
          if (communicator.rank() == 1 &&
              (there.sent != 1000 + n || there.arrives != 2000 + n))
            return "value " + std::to_string(n);
        }
        return "";
      });
}

TEST_P(ChannelsTest, AChannelThatIsNoneIsRefused) {
  expectAllWell({.ranks = 3, .slotBytes = 4096},
                [](Communicator &communicator) -> std::string {
                  auto group = communicator.createGroup(allRanks(communicator));
                  if (communicator.rank() != 0)
                    return communicator.exchange(*group, 0) ? "" : "barrier";
                  auto refused = [&](Channel channel,
                                     const char *part) -> std::string {
                    auto end = communicator.openChannel(channel);
                    if (end)
                      return std::string("opened: ") + part;
                    return end.error().message.find(part) == std::string::npos
                               ? end.error().message
                               : "";
                  };
                  Channel good = channelOf(*group, 1, 64), other = good;
                  other.group.index = 9;
                  std::string text = refused(other, "is of no group");
                  other = good, other.to = 3;
                  text += refused(other, "goes from member 0 to 3 of 3");
                  other = good, other.to = 0;
                  text += refused(other, "goes from member 0 to 0 of 3");
                  other = good, other.from = 1, other.to = 2;
                  text += refused(other, "and this is member 0");
                  other = good, other.slots = 0;
                  text += refused(other, "has no slots");
                  other = good, other.slots = 1 << 20;
                  text += refused(other, "that is more than 16384");
                  other = good, other.bytes = 4097;
                  text += refused(other, "and of the 4096 bytes for what this "
                                         "rank sends 4096 are left");
                  other = good, other.slots = 4, other.bytes = 1025;
                  text += refused(other, "has 4 slots for 1025 bytes");
                  other = good, other.bytes = uint64_t(1) << 60;
                  text += refused(other, "4096 are left");
                  auto first = communicator.openChannel(good),
                       again = communicator.openChannel(good);
                  if (!first || !again || first->index != again->index)
                    text += "a good one";
                  other = good, other.id = 8, other.slots = 64;
                  text += refused(other, "4032 are left");
                  return communicator.exchange(*group, 0) ? text : "barrier";
                });
}

/// Sends or receives three values, with what `change` makes of rank 1's end.
std::vector<RankOutcome>
runDifferently(const CommunicatorUnderTest &communicator,
               void (*change)(Channel &)) {
  return communicator.run(
      {.ranks = 2},
      [=](Communicator &communicator) -> std::string {
        auto group = communicator.createGroup(Ranks{0, 1});
        Channel channel = channelOf(*group, 1, 64);
        if (communicator.rank() == 1)
          change(channel);
        auto end = communicator.openChannel(channel);
        std::vector<std::byte> value(64);
        for (int n = 0; n < 3; ++n) {
          auto done = communicator.rank() == 0
                          ? communicator.send(*end, spanOf(value))
                          : communicator.receive(*end, spanOf(value));
          if (!done)
            return done.error().message;
        }
        return "";
      },
      "");
}

TEST_P(ChannelsTest, EndsThatDisagreeAreAnErrorThatNamesBoth) {
  expectErrorEverywhere(
      runDifferently(GetParam(), [](Channel &end) { end.bytes = 32; }),
      {"rank 0 sends value 7 of 64 bytes through 1 slots",
       "rank 1 receives value 7 of 32 bytes through 1"});
  expectErrorEverywhere(
      runDifferently(GetParam(), [](Channel &end) { end.slots = 2; }),
      {"through 1 slots", "of 64 bytes through 2"});
  // Another value has another channel, in which nothing is sent.
  expectErrorEverywhere(
      runDifferently(GetParam(), [](Channel &end) { end.id = 71; }),
      {"ranks wait for each other:", "rank 0 waits at value 7 ",
       "until rank 1 receives one before it", "rank 1 waits at value 71 ",
       "for what rank 0 sends"});
}

/// Rank 1 runs `other` instead of the receive or send that rank 0 waits for.
std::vector<RankOutcome>
runWithout(const CommunicatorUnderTest &communicator, bool sends,
           const std::function<std::string(Communicator &)> &other) {
  return communicator.run(
      {.ranks = 2},
      [=](Communicator &communicator) -> std::string {
        auto group = communicator.createGroup(Ranks{0, 1});
        Channel channel = channelOf(*group, 1, 64);
        if (!sends)
          std::swap(channel.from, channel.to);
        auto end = communicator.openChannel(channel);
        if (!communicator.exchange(*group, 0))
          return "barrier";
        if (communicator.rank() == 1)
          return other(communicator);
        std::vector<std::byte> value(64);
        for (int n = 0; n < 2; ++n) {
          auto done = sends ? communicator.send(*end, spanOf(value))
                            : communicator.receive(*end, spanOf(value));
          if (!done)
            return done.error().message;
        }
        return "";
      },
      "");
}

TEST_P(ChannelsTest, WhoWaitsForARankThatDiesIsTold) {
  for (bool sends : {false, true}) {
    auto outcomes = runWithout(GetParam(), sends, [](Communicator &) {
      usleep(50'000); // its message about the barrier is on its way
      kill(getpid(), SIGKILL);
      return std::string();
    });
    EXPECT_EQ(outcomes[1].signal, SIGKILL);
    EXPECT_NE(outcomes[0].text.find("rank 1 (process "), std::string::npos);
    EXPECT_NE(outcomes[0].text.find(") died; rank 0 waits at value 7"),
              std::string::npos)
        << outcomes[0].text;
    EXPECT_NE(outcomes[0].text.find(sends
                                        ? "until rank 1 receives one before it"
                                        : "for what rank 1 sends"),
              std::string::npos)
        << outcomes[0].text;
    EXPECT_LT(outcomes[0].seconds, 5);
  }
}

TEST_P(ChannelsTest, WhoWaitsForARankThatLeavesIsTold) {
  auto outcomes = runWithout(GetParam(), false,
                             [](Communicator &) { return std::string(); });
  EXPECT_NE(outcomes[0].text.find("left the job early"), std::string::npos)
      << outcomes[0].text;
}

TEST_P(ChannelsTest, AnAbortEndsTheWait) {
  auto outcomes = runWithout(GetParam(), false, [](Communicator &communicator) {
    usleep(50'000);
    communicator.job().abort("enough");
    return std::string("enough");
  });
  EXPECT_NE(outcomes[0].text.find("rank 1: enough"), std::string::npos)
      << outcomes[0].text;
}

// Rank 0 receives what rank 1 would send after a sum in which rank 0 is
// missing.
TEST_P(ChannelsTest, ACircleOfAChannelAndAGroupIsFound) {
  auto outcomes = runWithout(GetParam(), false, [](Communicator &communicator) {
    auto group = communicator.createGroup(Ranks{0, 1});
    auto done = communicator.exchange(*group, 0);
    return done ? std::string() : done.error().message;
  });
  expectErrorEverywhere(
      outcomes, {"ranks wait for each other:", "rank 0 waits at value 7",
                 "for what rank 1 sends", "in the group of ranks 0, 1"});
}

TEST_P(ChannelsTest, ACircleOfChannelsIsFound) {
  auto outcomes =
      run({.ranks = 3}, [](Communicator &communicator) -> std::string {
        auto group = communicator.createGroup(Ranks{0, 1, 2});
        auto self = uint32_t(communicator.rank());
        Channel channel = channelOf(*group, 1, 64);
        channel.from = (self + 1) % 3, channel.to = self;
        auto end = communicator.openChannel(channel);
        std::vector<std::byte> value(64);
        auto done = communicator.receive(*end, spanOf(value));
        return done ? "" : done.error().message;
      });
  expectErrorEverywhere(outcomes,
                        {"ranks wait for each other:", "for what rank 0 sends",
                         "for what rank 1 sends", "for what rank 2 sends"});
}

INSTANTIATE_TEST_SUITE_P(
    Communicators, ChannelsTest,
    testing::Values(
        CommunicatorUnderTest{"shm", runOverShm},
        CommunicatorUnderTest{"late", runLate},
        CommunicatorUnderTest{"shmWithThreads", runWithCommThreads, true},
        CommunicatorUnderTest{"machines", runOverMachines<4>, true, true},
        CommunicatorUnderTest{"ucx", runOverMachines<4, WireKind::Ucx>, true,
                              true, WireKind::Ucx}),
    [](const auto &communicator) { return communicator.param.name; });

} // namespace
} // namespace polyrank::runtime::test
