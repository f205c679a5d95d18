// Properties of buffer packing on random lifetimes.

#include "compiler/lowering/BufferPacking.h"

#include <gtest/gtest.h>
#include <random>

using namespace polyrank::lowering;

namespace {

std::vector<PackedBuffer> randomBuffers(std::mt19937 &random, int count) {
  std::vector<PackedBuffer> buffers(count);
  for (PackedBuffer &buffer : buffers) {
    buffer.size = 1 + random() % 1000;
    int64_t position = random() % 40;
    for (int part = 1 + random() % 2; part > 0; --part) {
      int64_t last = position + random() % 8;
      buffer.lifetimes.push_back({position, last});
      position = last + 1 + random() % 8;
    }
  }
  return buffers;
}

TEST(BufferPacking, LiveBuffersNeverOverlapAndAreAligned) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    auto buffers = randomBuffers(random, 1 + random() % 60);
    Packing packing = packBuffers(buffers, 64);
    EXPECT_GE(packing.size, packing.lowerBound);
    for (size_t i = 0; i < buffers.size(); ++i) {
      EXPECT_EQ(buffers[i].offset % 64, 0);
      EXPECT_LE(buffers[i].offset + buffers[i].size, packing.size);
      for (size_t j = 0; j < i; ++j)
        if (buffers[i].overlaps(buffers[j]))
          EXPECT_TRUE(buffers[i].offset + buffers[i].size <=
                          buffers[j].offset ||
                      buffers[j].offset + buffers[j].size <= buffers[i].offset);
    }
  }
}

TEST(BufferPacking, NestedLifetimesReachTheLowerBound) {
  // Lifetimes as in a forward and backward pass: first in, last out.
  std::vector<PackedBuffer> buffers;
  for (int64_t layer = 0; layer < 20; ++layer)
    buffers.push_back({64 * (1 + layer % 3), {{layer, 40 - layer}}});
  Packing packing = packBuffers(buffers, 64);
  EXPECT_EQ(packing.size, packing.lowerBound);
}

TEST(BufferPacking, LiesNearTheLowerBoundOnRandomLifetimes) {
  std::mt19937 random(2);
  double sum = 0;
  constexpr int rounds = 100;
  for (int round = 0; round < rounds; ++round) {
    auto buffers = randomBuffers(random, 40);
    Packing packing = packBuffers(buffers, 64);
    sum += static_cast<double>(packing.size) / packing.lowerBound;
  }
  EXPECT_LT(sum / rounds, 1.065);
}

TEST(BufferPacking, BytesServeOthersBetweenTwoLifetimes) {
  std::vector<PackedBuffer> buffers = {{64, {{0, 1}, {5, 6}}}, {64, {{2, 4}}}};
  EXPECT_EQ(packBuffers(buffers, 64).size, 64);
}

TEST(BufferPacking, TheLowerBoundIsTheLargestLiveSum) {
  std::vector<PackedBuffer> buffers = {
      {128, {{0, 2}}}, {64, {{2, 3}}}, {256, {{3, 3}}}};
  EXPECT_EQ(packBuffers(buffers, 64).lowerBound, 320);
}

TEST(LiveBytes, AreSummedAtEachPosition) {
  LiveBytes live;
  EXPECT_EQ(live.getLargest(), 0);
  live.add({{0, 2}, {4, 5}}, 128);
  live.add({{2, 3}}, 64);
  EXPECT_EQ(live.getLargest(), 192);
  live.add({{2, 2}}, -128);
  EXPECT_EQ(live.getLargest(), 128);
}

TEST(BufferPacking, NothingCrossesTheBarrierAndLowBuffersLieBelowIt) {
  std::vector<PackedBuffer> buffers = {{640, {{0, 0}}},
                                       {640, {{0, 1}}},
                                       {1280, {{1, 1}}},
                                       {320, {{0, 0}}, -1, /*isLow=*/true}};
  Packing packing = packBuffers(buffers, 64, 960);
  EXPECT_EQ(buffers[3].offset % 64, 0);
  EXPECT_LE(buffers[3].offset + buffers[3].size, 960);
  for (const PackedBuffer &buffer : buffers)
    EXPECT_TRUE(buffer.offset >= 960 || buffer.offset + buffer.size <= 960);
  EXPECT_EQ(packing.size, 960 + 1280); // the third is larger than the barrier
  // The barrier is too low for the buffers that must lie below it.
  EXPECT_EQ(packBuffers(buffers, 64, 256).size, INT64_MAX);
}

} // namespace
