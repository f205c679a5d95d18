// The choice of sources by weights.

#include "runtime/data/SourceMix.h"

#include <gtest/gtest.h>

#include <cmath>

namespace polyrank::runtime::test {
namespace {

TEST(SourceMix, IsTheTableOfItsDescription) {
  const double weights[] = {3, 1};
  SourceMix mix(weights);
  const size_t sources[] = {0, 0, 0, 1, 0, 0, 0, 1};
  const uint64_t indices[] = {0, 1, 2, 0, 3, 4, 5, 1};
  for (uint64_t p = 0; p < 8; ++p) {
    EXPECT_EQ(mix.at(p).source, sources[p]) << p;
    EXPECT_EQ(mix.at(p).index, indices[p]) << p;
  }
}

TEST(SourceMix, EachSourceGetsItsShareAtAnyTimeAndItsSamplesInOrder) {
  const double weights[] = {0.7, 0.25, 0.05, 1e-3};
  SourceMix mix(weights);
  uint64_t counts[4] = {};
  for (uint64_t p = 0; p < 20000; ++p) {
    for (size_t s = 0; s < 4; ++s) {
      ASSERT_EQ(mix.countBefore(s, p), counts[s]);
      EXPECT_NEAR(double(counts[s]), weights[s] / 1.001 * double(p), 9) << p;
    }
    SourceMix::Place place = mix.at(p);
    ASSERT_EQ(place.index, counts[place.source]++);
  }
}

TEST(SourceMix, FarPositionsAreComputedAtOnce) {
  const double weights[] = {1, 1, 1};
  SourceMix mix(weights);
  uint64_t far = uint64_t(1) << 50, sum = 0;
  for (size_t s = 0; s < 3; ++s) {
    uint64_t count = mix.countBefore(s, far);
    EXPECT_NEAR(double(count), double(far) / 3, 60);
    sum += count;
  }
  EXPECT_EQ(sum, far);
  for (uint64_t p = far; p < far + 100; ++p)
    EXPECT_EQ(mix.countBefore(mix.at(p).source, p + 1), mix.at(p).index + 1);
}

TEST(SourceMix, AWeightBesideWhichTheOthersVanishTakesAll) {
  const double weights[] = {1, 1e-30}, one[] = {5};
  EXPECT_EQ(SourceMix(weights).countBefore(0, 1 << 20), uint64_t(1 << 20));
  EXPECT_EQ(SourceMix(one).at(12345).index, 12345u);
}

} // namespace
} // namespace polyrank::runtime::test
