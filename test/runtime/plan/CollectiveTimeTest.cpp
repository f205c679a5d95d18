// The times of collectives, against formulas that are worked out by hand.

#include "runtime/plan/CollectiveTime.h"

#include <gtest/gtest.h>
#include <utility>

namespace polyrank::runtime::test {
namespace {

/// 1 us, 1 GB/s: 1,000 ps for each byte.
constexpr LinkTime link = LinkTime::of(1, 1);
constexpr int64_t microsecond = 1'000'000;

int64_t timeOf(CollectiveKind kind, uint64_t members, uint64_t larger) {
  bool gathers = kind == CollectiveKind::AllGather;
  uint64_t sent = kind == CollectiveKind::ReduceScatter || gathers
                      ? sentBytes(kind, members, larger, larger / members)
                      : sentBytes(kind, members, larger, larger);
  return collectiveTime(kind, static_cast<int64_t>(members), sent, link);
}

TEST(CollectiveTime, IsThatOfItsWaitsAndBytes) {
  // 4 members, 4 kB: each sends 3 kB, in 3 us.
  EXPECT_EQ(timeOf(CollectiveKind::AllReduce, 4, 4000), 10 * microsecond);
  EXPECT_EQ(timeOf(CollectiveKind::ReduceScatter, 4, 4000), 5 * microsecond);
  EXPECT_EQ(timeOf(CollectiveKind::AllGather, 4, 4000), 5 * microsecond);
  EXPECT_EQ(timeOf(CollectiveKind::Broadcast, 4, 4000), 5 * microsecond);
  EXPECT_EQ(timeOf(CollectiveKind::AllToAll, 4, 4000), 4 * microsecond);
  EXPECT_EQ(timeOf(CollectiveKind::Permute, 4, 4000), 5 * microsecond);
  for (auto kind : {CollectiveKind::Halo, CollectiveKind::HaloAdd})
    EXPECT_EQ(collectiveTime(kind, 4, 4000, link), 5 * microsecond);
  EXPECT_EQ(link.messageTime(4000), 5 * microsecond);
}

TEST(CollectiveTime, WaitsAsOftenAsItsTreeIsHigh) {
  for (auto [members, height] : {std::pair(2, 1),
                                 {3, 2},
                                 {4, 2},
                                 {5, 3},
                                 {8, 3},
                                 {9, 4},
                                 {64, 6},
                                 {3072, 12}}) {
    EXPECT_EQ(countWaits(CollectiveKind::AllReduce, members), 2 * height);
    EXPECT_EQ(countWaits(CollectiveKind::ReduceScatter, members), height);
    EXPECT_EQ(countWaits(CollectiveKind::AllGather, members), height);
    EXPECT_EQ(countWaits(CollectiveKind::Broadcast, members), height);
    EXPECT_EQ(countWaits(CollectiveKind::AllToAll, members), 1);
    EXPECT_EQ(countWaits(CollectiveKind::Permute, members), 1);
  }
}

// Otherwise collectives would be taken apart, or joined, for nothing.
TEST(CollectiveTime, IsThatOfItsParts) {
  auto of = [](CollectiveKind kind, uint64_t members, uint64_t larger) {
    return timeOf(kind, members, larger);
  };
  constexpr auto scatter = CollectiveKind::ReduceScatter,
                 gather = CollectiveKind::AllGather,
                 reduce = CollectiveKind::AllReduce;
  EXPECT_EQ(of(reduce, 8, 8000), of(scatter, 8, 8000) + of(gather, 8, 8000));
  EXPECT_EQ(of(scatter, 8, 8000), of(scatter, 2, 8000) + of(scatter, 4, 4000));
  EXPECT_EQ(of(gather, 8, 8000), of(gather, 2, 2000) + of(gather, 4, 8000));
  EXPECT_EQ(of(reduce, 8, 8000),
            of(scatter, 2, 8000) + of(reduce, 4, 4000) + of(gather, 2, 8000));
}

TEST(CollectiveTime, OfOneMemberIsNothing) {
  for (int kind = 0; kind < numCollectiveKinds; ++kind)
    EXPECT_EQ(collectiveTime(static_cast<CollectiveKind>(kind), 1, 0, link), 0);
}

TEST(CollectiveTime, RoundsTheWholeAndNotTheTimeOfAByte) {
  // 334 and 499 GB/s are three and two picoseconds a byte, and a bit.
  EXPECT_EQ(LinkTime::of(0, 334).messageTime(1'000'000), 2'994'012);
  EXPECT_EQ(LinkTime::of(0, 499).messageTime(1'000'000), 2'004'008);
  EXPECT_EQ(LinkTime::of(0, 1000).messageTime(3), 3);
  EXPECT_EQ(LinkTime::of(0, 1e6).messageTime(1'000'000), 1000);
}

} // namespace
} // namespace polyrank::runtime::test
