// Packing of an arena's regions.

#include "compiler/lowering/ArenaPacking.h"

#include <gtest/gtest.h>

using namespace polyrank;
using namespace polyrank::lowering;

namespace {

ArenaUnit unit(int64_t size, Lifetime lifetime, rank::Region region,
               bool isPersistent = false) {
  return {{size, {lifetime}}, region, isPersistent};
}

TEST(ArenaPacking, PrivateUnitsLieInGapsOfTheSharedRegion) {
  // At 0 collectives need memory, at 2 kernels.
  std::vector<ArenaUnit> units = {
      unit(640, {0, 9}, rank::Region::Shared, /*isPersistent=*/true),
      unit(6400, {0, 0}, rank::Region::Shared),
      unit(3200, {2, 2}, rank::Region::Private),
      unit(3200, {2, 3}, rank::Region::Private)};
  ArenaPacking arena = packArena(units, 64);
  EXPECT_EQ(arena.lowerBound, 640 + 6400);
  EXPECT_EQ(arena.shared.size + arena.privately.size, arena.lowerBound);
  EXPECT_EQ(units[2].region, rank::Region::Shared);
  EXPECT_NE(units[2].packed.offset, units[3].packed.offset);
  for (int i : {2, 3}) {
    EXPECT_GE(units[i].packed.offset, 640);
    EXPECT_LE(units[i].packed.offset + units[i].packed.size, 640 + 6400);
  }
}

TEST(ArenaPacking, RegionsStayApartWhereTheirWorstMomentsAreOne) {
  std::vector<ArenaUnit> units = {unit(6400, {1, 1}, rank::Region::Shared),
                                  unit(3200, {1, 2}, rank::Region::Private)};
  ArenaPacking arena = packArena(units, 64);
  EXPECT_EQ(arena.shared.size, 6400);
  EXPECT_EQ(arena.privately.size, 3200);
  EXPECT_EQ(units[1].region, rank::Region::Private);
}

TEST(ArenaPacking, TheSharedRegionGrowsWhereNothingFitsIntoItsGaps) {
  std::vector<ArenaUnit> units = {
      unit(64, {0, 9}, rank::Region::Shared, /*isPersistent=*/true),
      unit(64, {0, 9}, rank::Region::Private, /*isPersistent=*/true),
      unit(6400, {0, 1}, rank::Region::Shared),
      unit(3200, {1, 1}, rank::Region::Private),
      // The buffer is larger than the gap that the first leaves.
      unit(9600, {2, 2}, rank::Region::Private)};
  ArenaPacking arena = packArena(units, 64);
  EXPECT_EQ(arena.lowerBound, 128 + 9600);
  EXPECT_EQ(arena.shared.size + arena.privately.size, arena.lowerBound);
  EXPECT_EQ(units[2].region, rank::Region::Shared);
  EXPECT_EQ(units[4].region, rank::Region::Shared);
  EXPECT_EQ(units[4].packed.offset, 64);
  EXPECT_EQ(units[1].region, rank::Region::Private);
  EXPECT_EQ(units[1].packed.offset, 0);
}

TEST(ArenaPacking, EveryUnitBeginsAtAMultipleOfTheAlignment) {
  std::vector<ArenaUnit> units;
  for (bool isPersistent : {true, false})
    for (auto region : {rank::Region::Shared, rank::Region::Private})
      for (int i = 0; i < 2; ++i)
        units.push_back(unit(100, {0, 1}, region, isPersistent));
  ArenaPacking arena = packArena(units, 64);
  EXPECT_EQ(arena.lowerBound, 8 * 128);
  for (const ArenaUnit &each : units)
    EXPECT_EQ(each.packed.offset % 64, 0);
}

} // namespace
