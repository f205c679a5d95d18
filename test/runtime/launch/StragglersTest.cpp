// The rank that delays the others.

#include "runtime/launch/Stragglers.h"

#include <gtest/gtest.h>

namespace polyrank::runtime {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t second = 1'000'000'000;

/// Returns the straggler among four ranks after one window in which others
/// waited `seconds` for each.
std::optional<Stragglers::Found> after(std::vector<uint64_t> seconds) {
  Stragglers stragglers;
  std::vector<uint64_t> begin{100, 200, 300, 400}, end = begin;
  EXPECT_FALSE(stragglers.look(5s, begin));
  for (size_t r = 0; r < end.size(); ++r)
    end[r] += seconds[r] * second;
  EXPECT_FALSE(stragglers.look(14s, end)); // the window is not over
  return stragglers.look(15s, end);
}

TEST(Stragglers, ARankForWhichTheOthersWaitMuchIsFound) {
  auto found = after({0, 1, 12, 0}); // of 3 x 10 seconds
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 2);
  EXPECT_NEAR(found->share, 12. / 13, 1e-9);
  EXPECT_NEAR(found->timeLost, 12. / 30, 1e-9);
}

TEST(Stragglers, RanksThatAreLastByTurnsAreNot) {
  EXPECT_FALSE(after({6, 6, 12, 6}));
}

TEST(Stragglers, LittleWaitingIsEverybodys) {
  EXPECT_FALSE(after({0, 0, 5, 0}));
}

TEST(Stragglers, EachIsFoundOnceAndOneRankNever) {
  Stragglers stragglers;
  std::vector<uint64_t> awaited{0, 0};
  EXPECT_FALSE(stragglers.look(0s, awaited));
  awaited[0] += 9 * second;
  EXPECT_TRUE(stragglers.look(10s, awaited));
  awaited[0] += 9 * second;
  EXPECT_FALSE(stragglers.look(20s, awaited));
  awaited[1] += 9 * second;
  auto other = stragglers.look(30s, awaited);
  ASSERT_TRUE(other);
  EXPECT_EQ(other->rank, 1);
  Stragglers alone;
  EXPECT_FALSE(alone.look(0s, {0}));
  EXPECT_FALSE(alone.look(10s, {9 * second}));
}

} // namespace
} // namespace polyrank::runtime
