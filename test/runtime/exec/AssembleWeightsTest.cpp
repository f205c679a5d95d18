// The parts of a row of bytes that ranks take. What is assembled is compared in
// RunTest.cpp and by the tests of saved files.

#include "runtime/exec/AssembleWeights.h"

#include <gtest/gtest.h>

namespace polyrank::runtime {
namespace {

TEST(WeightAssembler, PartsOfTheRanksCoverAllBytesOnceInWholePages) {
  constexpr uint64_t page = 4096, mib = 1 << 20;
  for (int ranks : {1, 2, 3, 7, 64})
    for (uint64_t begin : {uint64_t(0), uint64_t(1), 3 * page, 32 * mib + 72})
      for (uint64_t length : {uint64_t(0), uint64_t(1), page, 5 * mib,
                              32 * mib - 72, 33 * mib + 9}) {
        uint64_t at = begin, end = begin + length;
        for (int rank = 0; rank < ranks; ++rank) {
          auto [from, to] = WeightAssembler::partOf(begin, end, rank, ranks);
          EXPECT_EQ(from, at);
          EXPECT_GE(to, from);
          EXPECT_TRUE(to % page == 0 || to == end || to == begin);
          at = to;
        }
        EXPECT_EQ(at, end) << ranks << " ranks, " << length << " bytes";
      }
}

TEST(WeightAssembler, NoRankHasMuchMoreThanTheOthers) {
  uint64_t end = 32 << 20, most = 0;
  for (int rank = 0; rank < 4; ++rank) {
    auto [from, to] = WeightAssembler::partOf(0, end, rank, 4);
    most = std::max(most, to - from);
  }
  EXPECT_LE(most, end / 4 + (128 << 10));
}

} // namespace
} // namespace polyrank::runtime
