// The time of a command: rates, launches, the efficiency of products, the host.

#include "compiler/cost/CommandTime.h"

#include <gtest/gtest.h>

using namespace polyrank::cost;

namespace {

// A TFLOP/s and a GB/s: a FLOP is a picosecond, a byte a nanosecond.
const DeviceRates plain{1e12, 1e9};

TEST(CommandTimes, AreTheLargerOfFlopsAndBytes) {
  EXPECT_EQ(getCommandTime({5000, 2}, plain), 5000);
  EXPECT_EQ(getCommandTime({1000, 2}, plain), 2000);
  EXPECT_EQ(getCommandTime({0, 2}, plain), 2000);
  EXPECT_EQ(getCommandTime({0, 0}, plain), 0);
}

TEST(CommandTimes, OfProductsOfAllSizesFollowFromTheFlopsWithoutACurve) {
  EXPECT_EQ(getCommandTime({5000, 2, Product{1, 3, 3, 3}}, plain), 5000);
}

TEST(CommandTimes, OfKernelsHaveALaunch) {
  DeviceRates rates = plain;
  rates.launch = 700;
  EXPECT_EQ(getCommandTime({0, 2}, rates), 2700);
  EXPECT_EQ(getCommandTime({5000, 2}, rates), 5000);
}

TEST(CommandTimes, OfSmallProductsAreThoseOfWholeTiles) {
  ProductCurve curve{128, 0, 0};
  EXPECT_EQ(curve.getSlowdown({1, 256, 128, 64}), 1);
  // Two tiles for one and a half.
  EXPECT_EQ(curve.getSlowdown({1, 192, 128, 64}), 256.0 / 192);
  EXPECT_EQ(curve.getSlowdown({3, 64, 64, 64}), 4);
}

TEST(CommandTimes, OfProductsDoubleWithHalfOfTheTilesAndHalfOfTheDepth) {
  EXPECT_EQ((ProductCurve{128, 4, 0}).getSlowdown({1, 256, 256, 64}), 2);
  EXPECT_EQ((ProductCurve{128, 4, 0}).getSlowdown({4, 128, 128, 64}), 2);
  EXPECT_EQ((ProductCurve{128, 4, 0}).getSlowdown({1, 512, 128, 64}), 2);
  EXPECT_EQ((ProductCurve{1, 0, 64}).getSlowdown({1, 256, 256, 64}), 2);
  EXPECT_EQ((ProductCurve{128, 4, 64}).getSlowdown({1, 256, 256, 64}), 4);
  DeviceRates rates = plain;
  rates.products = ProductCurve{128, 4, 64};
  double flops = 2.0 * 256 * 256 * 64;
  EXPECT_EQ(getCommandTime({flops, 0, Product{1, 256, 256, 64}}, rates),
            4 * flops);
}

TEST(Lists, TakeWhatTheirCommandsTakeWithoutAHost) {
  IssueClock clock(0);
  EXPECT_EQ(clock.run(30), 30);
  EXPECT_EQ(clock.run(0.1), 0.1); // no bit is lost in a sum
  EXPECT_EQ(clock.now(), 30.1);
}

TEST(Lists, TakeTheLongerOfDeviceAndHost) {
  IssueClock clock(10);
  EXPECT_EQ(clock.run(4), 10);
  EXPECT_EQ(clock.run(4), 10);
  // The host has gone on meanwhile.
  EXPECT_EQ(clock.run(50), 38);
  EXPECT_EQ(clock.now(), 58);
  EXPECT_EQ(clock.run(4), 4);
  for (int i = 0; i < 6; ++i)
    clock.run(0);
  EXPECT_EQ(clock.now(), 100); // ten commands
}

} // namespace
