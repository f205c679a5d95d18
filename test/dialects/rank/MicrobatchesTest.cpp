// The runs of segments that suffice to check all of them.

#include "dialects/rank/Rank.h"
#include "mlir/IR/Builders.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace polyrank;

namespace {

using Runs = std::vector<std::pair<int64_t, int64_t>>;

/// Returns the runs to check of a schedule whose stashes have these slots.
Runs runsToCheck(const Runs &runs, ArrayRef<int64_t> slots = {}) {
  MLIRContext context;
  context.loadDialect<rank::RankDialect>();
  OpBuilder builder(&context);
  Location location = builder.getUnknownLoc();
  SmallVector<Type> types;
  SmallVector<int64_t> stashes, schedule;
  for (int64_t count : slots) {
    stashes.push_back(types.size());
    types.push_back(RankedTensorType::get({count, 4}, builder.getF32Type()));
  }
  for (auto [segment, microbatch] : runs)
    schedule.append({segment, microbatch});
  OwningOpRef<rank::MicrobatchesOp> loop(rank::MicrobatchesOp::create(
      builder, location, types, schedule, ValueRange(), ValueRange(), stashes,
      /*buffers=*/nullptr));
  Runs checked;
  for (auto [segment, microbatch] : loop->getRunsToCheck())
    checked.push_back({segment, microbatch});
  return checked;
}

Runs oneByOne(int64_t count) {
  Runs runs = {{0, 0}};
  for (int64_t i = 1; i < count; ++i)
    runs.push_back({1, i});
  return runs;
}

/// Returns 1F1B runs with `ahead` forwards in flight.
Runs inTurn(int64_t count, int64_t ahead) {
  Runs runs;
  for (int64_t i = 0; i < ahead; ++i)
    runs.push_back({0, i});
  for (int64_t i = 0; i < count; ++i) {
    runs.push_back({1, i});
    if (i + ahead < count)
      runs.push_back({0, i + ahead});
  }
  return runs;
}

} // namespace

TEST(RunsToCheck, AShortScheduleIsCheckedWhole) {
  EXPECT_EQ(runsToCheck({{0, 0}}), (Runs{{0, 0}}));
  EXPECT_EQ(runsToCheck(oneByOne(4)), oneByOne(4));
  EXPECT_EQ(runsToCheck(inTurn(5, 2), {2}), inTurn(5, 2));
}

TEST(RunsToCheck, ALongOneIsThatOfFewerMicrobatches) {
  EXPECT_EQ(runsToCheck(oneByOne(1000)), oneByOne(4));
  EXPECT_EQ(runsToCheck(inTurn(64, 2)), runsToCheck(inTurn(65, 2)));
}

TEST(RunsToCheck, WhatComesBackToMicrobatchesIsCheckedWhole) {
  // All backwards after all forwards, and delayed forwards.
  EXPECT_EQ(runsToCheck(inTurn(8, 8)), inTurn(8, 8));
  Runs late = {{0, 0},  {0, 1},  {0, 2},  {0, 3},  {0, 7},  {0, 8},
               {0, 9},  {0, 10}, {0, 11}, {0, 12}, {0, 13}, {0, 14},
               {0, 15}, {0, 4},  {0, 5},  {0, 6}};
  EXPECT_EQ(runsToCheck(late), late);
}

TEST(RunsToCheck, MicrobatchesKeepTheirSlots) {
  for (int64_t ahead : {1, 2, 3, 4})
    for (int64_t count : {20, 21, 22, 23, 24, 64}) {
      Runs checked = runsToCheck(inTurn(count, ahead), {ahead, 3});
      int64_t left = checked.size() / 2;
      int64_t cycle = std::lcm(ahead, int64_t(3));
      EXPECT_EQ(checked, inTurn(left, ahead)) << ahead << " of " << count;
      EXPECT_EQ((count - left) % cycle, 0) << ahead << " of " << count;
      EXPECT_LE(left, 2 * cycle + ahead + 3) << ahead << " of " << count;
    }
}

TEST(RunsToCheck, WhatDoesNotRepeatIsKept) {
  Runs runs = {{0, 0}, {1, 0}, {2, 1}, {0, 5}, {1, 2}};
  EXPECT_EQ(runsToCheck(runs), runs);
}
