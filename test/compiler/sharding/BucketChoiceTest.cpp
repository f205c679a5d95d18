// The chosen buckets are the best of all, and no single size is better.

#include "compiler/sharding/BucketChoice.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

namespace polyrank::sharding {
namespace {

constexpr int64_t unlimited = int64_t(1) << 60;

/// A link of latency 100 and one picosecond a byte.
double linkTime(int64_t sent) { return 100 + static_cast<double>(sent); }

std::vector<BucketItem> draw(std::mt19937 &random, size_t count) {
  std::vector<BucketItem> items;
  double time = 0;
  for (size_t i = 0; i < count; ++i) {
    time += random() % 300;
    int64_t bytes = 1 + random() % 400;
    items.push_back({time, bytes, bytes / 2 + 1});
  }
  return items;
}

int64_t sumOf(std::span<const BucketItem> items, int64_t BucketItem::*field) {
  return std::accumulate(
      items.begin(), items.end(), int64_t(0),
      [&](int64_t sum, const BucketItem &item) { return sum + item.*field; });
}

std::vector<LinkUse> drawUses(std::mt19937 &random, size_t count) {
  std::vector<LinkUse> uses;
  double time = 0;
  for (size_t i = 0; i < count; ++i) {
    time += random() % 600;
    uses.push_back({time, 1.0 + random() % 300});
  }
  return uses;
}

/// When the last bucket has ended: all that goes over the link goes in the
/// order in which it is started.
double endOf(std::span<const BucketItem> items, std::span<const size_t> counts,
             double freeFrom, std::span<const LinkUse> uses = {}) {
  size_t next = 0, used = 0;
  for (size_t count : counts) {
    auto bucket = items.subspan(next, count);
    for (; used < uses.size() && uses[used].time <= bucket.back().time; ++used)
      freeFrom = std::max(freeFrom, uses[used].time) + uses[used].length;
    freeFrom = std::max(freeFrom, bucket.back().time) +
               linkTime(sumOf(bucket, &BucketItem::sent));
    next += count;
  }
  EXPECT_EQ(next, items.size());
  return freeFrom;
}

/// How long the computation stalls for gathers that are started when the bucket
/// before is needed: followed command by command, without the formula.
double stallOf(std::span<const BucketItem> items,
               std::span<const size_t> counts) {
  double stall = 0, begin = 0;
  size_t next = 0;
  for (size_t count : counts) {
    auto bucket = items.subspan(next, count);
    double end = begin + linkTime(sumOf(bucket, &BucketItem::sent));
    double need = bucket.front().time + stall;
    stall += std::max(0.0, end - need);
    begin = bucket.front().time + stall;
    next += count;
  }
  return stall;
}

/// All ways to cut `count` items, as the counts of the buckets.
std::vector<std::vector<size_t>> allCuts(size_t count) {
  std::vector<std::vector<size_t>> cuts;
  for (size_t bits = 0; bits < size_t(1) << (count - 1); ++bits) {
    std::vector<size_t> counts{1};
    for (size_t i = 0; i + 1 < count; ++i)
      if (bits >> i & 1)
        counts.push_back(1);
      else
        ++counts.back();
    cuts.push_back(counts);
  }
  return cuts;
}

bool fits(std::span<const BucketItem> items, std::span<const size_t> counts,
          int64_t most) {
  size_t next = 0;
  for (size_t count : counts) {
    if (count > 1 &&
        sumOf(items.subspan(next, count), &BucketItem::bytes) > most)
      return false;
    next += count;
  }
  return true;
}

TEST(BucketChoice, IsTheBestOfAllCuts) {
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) {
    std::vector<BucketItem> items = draw(random, 1 + random() % 9);
    double freeFrom = random() % 500;
    int64_t most = i % 2 ? unlimited : 300 + random() % 500;
    std::vector<LinkUse> uses = drawUses(random, i % 3);
    BucketChoice buckets = chooseBuckets(items, freeFrom, linkTime, most, uses),
                 gathers = chooseGathers(items, linkTime, most);
    double end = 1e18, stall = 1e18;
    for (const std::vector<size_t> &cut : allCuts(items.size()))
      if (fits(items, cut, most)) {
        end = std::min(end, endOf(items, cut, freeFrom, uses));
        stall = std::min(stall, stallOf(items, cut));
      }
    EXPECT_DOUBLE_EQ(buckets.time, end);
    EXPECT_DOUBLE_EQ(endOf(items, buckets.counts, freeFrom, uses), end);
    EXPECT_TRUE(fits(items, buckets.counts, most));
    EXPECT_DOUBLE_EQ(gathers.time, stall);
    EXPECT_DOUBLE_EQ(stallOf(items, gathers.counts), stall);
    EXPECT_TRUE(fits(items, gathers.counts, most));
  }
}

// By hand: the link is free when the second item is there, so the first goes
// alone; the last two are there together and go together.
TEST(BucketChoice, SendsEarlyWhatTheLinkHasTimeFor) {
  std::vector<BucketItem> items{
      {0, 50, 50}, {150, 50, 50}, {1000, 50, 50}, {1000, 50, 50}};
  BucketChoice choice = chooseBuckets(items, 0, linkTime, unlimited);
  EXPECT_EQ(choice.time, 1200);
  EXPECT_EQ(choice.counts.back(), 2u);
}

TEST(BucketChoice, TakesFewBucketsWhereMoreGainNothing) {
  std::vector<BucketItem> items(8, {1000, 10, 10});
  EXPECT_EQ(chooseBuckets(items, 0, linkTime, unlimited).counts,
            std::vector<size_t>{8});
  EXPECT_EQ(chooseBuckets(items, 0, linkTime, 40).counts,
            (std::vector<size_t>{4, 4}));
  EXPECT_TRUE(chooseBuckets({}, 0, linkTime, unlimited).counts.empty());
  EXPECT_TRUE(chooseGathers({}, linkTime, unlimited).counts.empty());
}

TEST(BucketChoice, ItemsAboveTheLimitGoAlone) {
  std::vector<BucketItem> items(3, {0, 1000, 1000});
  EXPECT_EQ(chooseBuckets(items, 0, linkTime, 10).counts,
            (std::vector<size_t>{1, 1, 1}));
  EXPECT_EQ(chooseGathers(items, linkTime, 10).counts,
            (std::vector<size_t>{1, 1, 1}));
}

} // namespace
} // namespace polyrank::sharding
