// Where a buffer starts in each microbatch.

#include "runtime/plan/BufferPlace.h"

#include <gtest/gtest.h>

namespace polyrank::runtime::test {
namespace {

plan::BufferRef buffer(uint64_t stride, uint32_t slots) {
  return {/*offset=*/4096, /*size=*/64,
          stride,          /*step=*/0,
          /*each=*/0,      slots,
          /*axes=*/0,      plan::Region::Private};
}

TEST(BufferPlace, OfAMicrobatchIsItsOwn) {
  EXPECT_EQ(shiftOf(buffer(100, 0), 0), 0u);
  EXPECT_EQ(shiftOf(buffer(100, 0), 5), 500u);
  EXPECT_EQ(placesOf(buffer(100, 0), 8), 8u);
}

TEST(BufferPlace, OfAMicrobatchIsThatOfAnEarlierOneWhereSlotsAreReused) {
  EXPECT_EQ(shiftOf(buffer(100, 3), 2), 200u);
  EXPECT_EQ(shiftOf(buffer(100, 3), 3), 0u);
  EXPECT_EQ(shiftOf(buffer(100, 3), 7), 100u);
  EXPECT_EQ(placesOf(buffer(100, 3), 8), 3u);
  EXPECT_EQ(placesOf(buffer(100, 3), 2), 2u);
}

TEST(BufferPlace, OfALoopReachesBackWhereItRunsBackwards) {
  plan::BufferRef ahead(0, 64, 0, 0, 32, 0, 0, plan::Region::Private),
      back(0, 64, 0, 0, -32, 0, 0, plan::Region::Private);
  EXPECT_EQ(reachOf(ahead, 5).ahead, 128u);
  EXPECT_EQ(reachOf(ahead, 5).back, 0u);
  EXPECT_EQ(reachOf(back, 5).back, 128u);
  EXPECT_EQ(reachOf(back, 5).ahead, 0u);
}

} // namespace
} // namespace polyrank::runtime::test
