// Both choices are dynamic programs over the first items.

#include "compiler/sharding/BucketChoice.h"

#include <algorithm>
#include <limits>

using namespace polyrank::sharding;

namespace {

/// The most items of one bucket that are considered, so that the search stays
/// short where there are thousands of small tensors.
constexpr size_t mostItems = 1024, mostGathers = 64;

constexpr double never = std::numeric_limits<double>::infinity();

/// The counts of the buckets that begin at `begins`, which descend.
std::vector<size_t> countsOf(std::span<const size_t> begins, size_t end) {
  std::vector<size_t> counts;
  for (size_t begin : begins) {
    counts.push_back(end - begin);
    end = begin;
  }
  std::reverse(counts.begin(), counts.end());
  return counts;
}

} // namespace

BucketChoice
polyrank::sharding::chooseBuckets(std::span<const BucketItem> items,
                                  double freeFrom, const CollectiveClock &clock,
                                  int64_t most, std::span<const LinkUse> uses) {
  struct Best {
    double end = never;
    size_t buckets = 0, begin = 0; // of the last bucket
  };
  std::vector<Best> best(items.size() + 1);
  best[0].end = freeFrom;
  // The number of uses before each bucket that ends with the first j items.
  std::vector<size_t> before{0};
  for (const BucketItem &item : items)
    before.push_back(std::upper_bound(uses.begin(), uses.end(), item.time,
                                      [](double time, const LinkUse &use) {
                                        return time < use.time;
                                      }) -
                     uses.begin());
  for (size_t j = 1; j <= items.size(); ++j) {
    int64_t bytes = 0, sent = 0;
    for (size_t i = j; i-- > 0 && j - i <= mostItems;) {
      bytes += items[i].bytes;
      sent += items[i].sent;
      if (bytes > most && i + 1 < j)
        break;
      double free = best[i].end;
      for (size_t use = before[i]; use < before[j]; ++use)
        free = std::max(free, uses[use].time) + uses[use].length;
      double end = std::max(free, items[j - 1].time) + clock(sent);
      size_t buckets = best[i].buckets + 1;
      if (end < best[j].end ||
          (end == best[j].end && buckets < best[j].buckets))
        best[j] = {end, buckets, i};
    }
  }
  std::vector<size_t> begins;
  for (size_t j = items.size(); j > 0; j = best[j].begin)
    begins.push_back(best[j].begin);
  return {countsOf(begins, items.size()), best.back().end};
}

BucketChoice
polyrank::sharding::chooseGathers(std::span<const BucketItem> items,
                                  const CollectiveClock &clock, int64_t most) {
  if (items.empty())
    return {};
  // stalls[j][n]: of the first j items, the last n of which are one bucket.
  struct Best {
    double stall = never;
    size_t buckets = 0, before = 0; // the items of the bucket before
  };
  std::vector<std::vector<Best>> best(items.size() + 1);
  for (size_t j = 1; j <= items.size(); ++j) {
    best[j].resize(std::min(j, mostGathers) + 1);
    int64_t bytes = 0, sent = 0;
    for (size_t i = j; i-- > 0 && j - i <= mostGathers;) {
      bytes += items[i].bytes;
      sent += items[i].sent;
      if (bytes > most && i + 1 < j)
        break;
      double duration = clock(sent);
      Best &entry = best[j][j - i];
      if (i == 0) {
        entry = {std::max(0.0, duration - items[0].time), 1, 0};
        continue;
      }
      for (size_t before = 1; before < best[i].size(); ++before) {
        const Best &last = best[i][before];
        if (last.stall == never)
          continue;
        double hidden = items[i].time - items[i - before].time;
        double stall = last.stall + std::max(0.0, duration - hidden);
        if (stall < entry.stall ||
            (stall == entry.stall && last.buckets + 1 < entry.buckets))
          entry = {stall, last.buckets + 1, before};
      }
    }
  }
  size_t j = items.size(), last = 1;
  for (size_t n = 1; n < best[j].size(); ++n) {
    const Best &entry = best[j][n], &least = best[j][last];
    if (entry.stall < least.stall ||
        (entry.stall == least.stall && entry.buckets < least.buckets))
      last = n;
  }
  BucketChoice choice;
  choice.time = best[j][last].stall;
  std::vector<size_t> begins;
  while (j > 0) {
    size_t before = best[j][last].before;
    j -= last;
    begins.push_back(j);
    last = before;
  }
  choice.counts = countsOf(begins, items.size());
  return choice;
}
