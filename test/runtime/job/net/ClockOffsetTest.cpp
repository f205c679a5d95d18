// The offset of clocks is that of the shortest of 16 round trips.

#include "runtime/job/net/ClockOffset.h"

#include <gtest/gtest.h>

namespace polyrank::runtime::net {
namespace {

using namespace std::chrono_literals;
using Time = ClockOffset::Time;

/// A round trip that begins at `sent` and takes `there` and `back`; the other
/// clock is ahead by `ahead`. Returns when it is over.
Time roundTrip(ClockOffset &clock, Time sent, Time there, Time back,
               Time ahead) {
  clock.began();
  clock.add(sent, sent + there + ahead, sent + there + back);
  return sent + there + back;
}

TEST(ClockOffset, TheShortestRoundTripCounts) {
  ClockOffset clock;
  Time now = 1000s;
  for (int trip = 0; trip < 16; ++trip) {
    EXPECT_FALSE(clock.isKnown());
    EXPECT_TRUE(clock.isDue(now));
    bool shortest = trip == 9;
    now = roundTrip(clock, now, shortest ? 100us : 5ms, shortest ? 100us : 1ms,
                    7h);
  }
  EXPECT_TRUE(clock.isKnown());
  EXPECT_EQ(clock.get(), Time(7h));
}

TEST(ClockOffset, ItsErrorIsAtMostHalfARoundTrip) {
  ClockOffset clock;
  for (int trip = 0; trip < 16; ++trip)
    roundTrip(clock, 1s * trip, 10ms, 0ms, -3s);
  EXPECT_LE(std::chrono::abs(clock.get() + 3s), 5ms);
}

TEST(ClockOffset, ItIsMeasuredAgainAfterThirtySeconds) {
  ClockOffset clock;
  Time now = 0s;
  for (int trip = 0; trip < 16; ++trip)
    now = roundTrip(clock, now, 1ms, 1ms, 5s);
  EXPECT_FALSE(clock.isDue(now + 29s));
  now += 30s;
  EXPECT_TRUE(clock.isDue(now));
  for (int trip = 0; trip < 16; ++trip) {
    EXPECT_EQ(clock.get(), Time(5s)); // until all are made
    now = roundTrip(clock, now, 1ms, 1ms, 6s);
  }
  EXPECT_EQ(clock.get(), Time(6s));
}

TEST(ClockOffset, OneRoundTripAtATime) {
  ClockOffset clock;
  clock.began();
  EXPECT_FALSE(clock.isDue(1000s));
}

TEST(ClockOffset, AnAnswerFromTheFutureSaysNothing) {
  ClockOffset clock;
  for (int trip = 0; trip < 16; ++trip)
    clock.add(2s, 7s, 1s);
  EXPECT_FALSE(clock.isKnown());
}

} // namespace
} // namespace polyrank::runtime::net
