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

// Levels: within nodes of 4 devices 1 us and 1 GB/s, between them 10 us and
// 0.1 GB/s, 10 ns a byte.
using Algorithm = CollectiveAlgorithm;
LinkLevels levelsWith(std::vector<Algorithm> node,
                      std::vector<Algorithm> network,
                      bool isHierarchical = false) {
  return {4,
          {link, {}, std::move(node)},
          LinkLevel{LinkTime::of(10, 0.1), {}, std::move(network)},
          isHierarchical};
}

/// Microseconds of a collective over `bytes`, the larger of before and after.
double timeOf(CollectiveKind kind, GroupPlaces places, uint64_t bytes,
              const LinkLevels &levels) {
  auto members = static_cast<uint64_t>(places.inNode * places.nodes);
  bool gathers = kind == CollectiveKind::AllGather;
  uint64_t sent = kind == CollectiveKind::ReduceScatter || gathers
                      ? sentBytes(kind, members, bytes, bytes / members)
                      : sentBytes(kind, members, bytes, bytes);
  return exactCollectiveTime(kind, places, sent, levels) / microsecond;
}

TEST(CollectiveTime, OfALevelThatHalvesIsThatOfItsLink) {
  LinkLevels levels = levelsWith({Algorithm::Halving}, {Algorithm::Halving});
  for (auto kind : {CollectiveKind::AllReduce, CollectiveKind::ReduceScatter,
                    CollectiveKind::AllGather, CollectiveKind::Broadcast,
                    CollectiveKind::AllToAll, CollectiveKind::Permute})
    EXPECT_DOUBLE_EQ(timeOf(kind, {4, 1}, 4000, levels) * microsecond,
                     static_cast<double>(timeOf(kind, 4, 4000)))
        << nameOf(kind);
}

TEST(CollectiveTime, OfARingWaitsForEachMember) {
  LinkLevels levels = levelsWith({Algorithm::Ring}, {Algorithm::Ring});
  EXPECT_DOUBLE_EQ(timeOf(CollectiveKind::AllReduce, {4, 1}, 4000, levels),
                   6 + 6);
  EXPECT_DOUBLE_EQ(timeOf(CollectiveKind::AllGather, {4, 1}, 4000, levels),
                   3 + 3);
  EXPECT_DOUBLE_EQ(timeOf(CollectiveKind::ReduceScatter, {4, 1}, 4000, levels),
                   3 + 3);
  // Over two nodes all eight are one ring of the slower links.
  EXPECT_DOUBLE_EQ(timeOf(CollectiveKind::AllReduce, {4, 2}, 8000, levels),
                   140 + 140);
}

TEST(CollectiveTime, OfATreeSendsTheWholeAndCountsWhereItIsFaster) {
  LinkLevels tree = levelsWith({Algorithm::Tree}, {Algorithm::Tree});
  EXPECT_DOUBLE_EQ(timeOf(CollectiveKind::AllReduce, {4, 1}, 4000, tree),
                   4 + 8);
  EXPECT_DOUBLE_EQ(timeOf(CollectiveKind::Broadcast, {4, 1}, 4000, tree),
                   2 + 4);
  LinkLevels both =
      levelsWith({Algorithm::Ring, Algorithm::Tree}, {Algorithm::Ring});
  // Few bytes go over the tree, many over the ring.
  EXPECT_DOUBLE_EQ(timeOf(CollectiveKind::AllReduce, {4, 1}, 400, both),
                   4 + 0.8);
  EXPECT_DOUBLE_EQ(timeOf(CollectiveKind::AllReduce, {4, 1}, 40000, both),
                   6 + 60);
  // A tree does not scatter.
  EXPECT_DOUBLE_EQ(timeOf(CollectiveKind::ReduceScatter, {4, 1}, 400, both),
                   3 + 0.3);
}

TEST(CollectiveTime, OfAGroupOverNodesIsThatOfItsLevelsWhereTheyTakeTurns) {
  LinkLevels levels =
      levelsWith({Algorithm::Ring}, {Algorithm::Ring}, /*isHierarchical=*/true);
  // 4,000 bytes are scattered in a node: 3 waits, 3 kB. A fourth of them is
  // reduced between two nodes: 2 waits, 1 kB. Then they are gathered.
  EXPECT_DOUBLE_EQ(timeOf(CollectiveKind::AllReduce, {4, 2}, 4000, levels),
                   (3 + 3) + (20 + 10) + (3 + 3));
  EXPECT_DOUBLE_EQ(timeOf(CollectiveKind::ReduceScatter, {4, 2}, 4000, levels),
                   (3 + 3) + (10 + 5));
  EXPECT_DOUBLE_EQ(timeOf(CollectiveKind::AllGather, {4, 2}, 4000, levels),
                   (3 + 3) + (10 + 5));
  EXPECT_DOUBLE_EQ(timeOf(CollectiveKind::Broadcast, {4, 2}, 4000, levels),
                   (3 + 3) + (10 + 20));
  // One member in each node: as without levels.
  EXPECT_DOUBLE_EQ(timeOf(CollectiveKind::AllReduce, {1, 2}, 4000, levels),
                   20 + 40);
  // What is exchanged takes the slower links.
  EXPECT_DOUBLE_EQ(timeOf(CollectiveKind::Permute, {4, 2}, 4000, levels),
                   10 + 40);
  EXPECT_EQ(timeOf(CollectiveKind::AllReduce, {1, 1}, 4000, levels), 0);
}

TEST(LinkLevel, ReachesLessWithSmallMessages) {
  LinkLevel level{LinkTime::of(0, 1), {{1e6, 0.25}, {16e6, 0.75}}};
  EXPECT_DOUBLE_EQ(level.timePerByte(10), 4000);
  EXPECT_DOUBLE_EQ(level.timePerByte(1e6), 4000);
  EXPECT_DOUBLE_EQ(level.timePerByte(4e6), 2000); // half of the way
  EXPECT_DOUBLE_EQ(level.timePerByte(16e6), 1000 / 0.75);
  EXPECT_DOUBLE_EQ(level.timePerByte(1e12), 1000 / 0.75);
  LinkLevels levels{4, level, std::nullopt};
  EXPECT_DOUBLE_EQ(timeOf(CollectiveKind::AllReduce, {4, 1}, 4'000'000, levels),
                   12'000);
}

TEST(GroupPlaces, AreThoseOfNeighboursInTheLastAxes) {
  auto placesOf = [](std::vector<GroupDim> dims) {
    GroupPlaces places = GroupPlaces::of(dims, 8);
    return std::pair(places.inNode, places.nodes);
  };
  using Pair = std::pair<int64_t, int64_t>;
  EXPECT_EQ(placesOf({{4, 1}}), Pair(4, 1));
  EXPECT_EQ(placesOf({{16, 1}}), Pair(8, 2));
  EXPECT_EQ(placesOf({{16, 2}}), Pair(4, 4));
  EXPECT_EQ(placesOf({{16, 8}}), Pair(1, 16));
  EXPECT_EQ(placesOf({{4, 8}, {4, 2}}), Pair(4, 4));
  EXPECT_EQ(placesOf({}), Pair(1, 1));
}

} // namespace
} // namespace polyrank::runtime::test
