// The number of slots of values that are live between two segments.

#include "compiler/lowering/SegmentPlan.h"

#include <gtest/gtest.h>

using polyrank::lowering::countSlots;
using polyrank::lowering::SlotCount;

namespace {

void expectSlots(llvm::ArrayRef<std::pair<int64_t, int64_t>> spans,
                 int64_t bound, int64_t slots) {
  SlotCount count = countSlots(spans);
  EXPECT_EQ(count.bound, bound);
  EXPECT_EQ(count.slots, slots);
}

} // namespace

TEST(CountSlots, WhatIsNeverThereTogetherHasOneSlot) {
  expectSlots({}, 1, 1);
  expectSlots({{0, 1}}, 1, 1);
  expectSlots({{0, 1}, {2, 3}, {4, 5}}, 1, 1);
}

TEST(CountSlots, AtOneRunOneIsReadAndTheNextIsGiven) {
  expectSlots({{0, 2}, {2, 4}, {4, 6}}, 2, 2);
}

TEST(CountSlots, MicrobatchesInTurnNeedAsManyAsAreThere) {
  expectSlots({{0, 3}, {1, 5}, {2, 7}, {4, 8}, {6, 9}}, 3, 3);
}

// The first value lives longer than the second: with two slots the third would
// overwrite it.
TEST(CountSlots, WhereOneWaitsLongerThanALaterOneMoreAreNeeded) {
  expectSlots({{0, 9}, {1, 2}, {3, 4}, {5, 6}}, 2, 4);
  expectSlots({{0, 5}, {1, 2}, {3, 4}, {6, 7}}, 2, 3);
}
