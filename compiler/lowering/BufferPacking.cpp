// Offsets for buffers whose lifetimes are known.

#include "compiler/lowering/BufferPacking.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace polyrank::lowering;

llvm::SmallVector<Lifetime>
polyrank::lowering::joinLifetimes(llvm::ArrayRef<Lifetime> lifetimes) {
  llvm::SmallVector<Lifetime> sorted(lifetimes), joined;
  llvm::sort(sorted, [](const Lifetime &x, const Lifetime &y) {
    return x.first < y.first;
  });
  for (const Lifetime &lifetime : sorted)
    if (!joined.empty() && lifetime.first <= joined.back().last)
      joined.back().last = std::max(joined.back().last, lifetime.last);
    else
      joined.push_back(lifetime);
  return joined;
}

std::pair<int64_t, int64_t>
polyrank::lowering::worstMoment(llvm::ArrayRef<PackedBuffer> buffers) {
  // A sweep over starts and ends.
  std::map<int64_t, int64_t> change;
  for (const PackedBuffer &buffer : buffers)
    for (const Lifetime &lifetime : buffer.lifetimes) {
      change[lifetime.first] += buffer.size;
      change[lifetime.last + 1] -= buffer.size;
    }
  int64_t live = 0, largest = 0, worst = 0;
  for (auto [position, difference] : change)
    if ((live += difference) > largest) {
      largest = live;
      worst = position;
    }
  return {worst, largest};
}

int64_t
polyrank::lowering::largestLiveSum(llvm::ArrayRef<PackedBuffer> buffers) {
  return worstMoment(buffers).second;
}

/// Places buffers one after another, each into the smallest gap between those
/// that it overlaps with in time, or behind them. Returns the end.
static int64_t place(llvm::MutableArrayRef<PackedBuffer> buffers,
                     llvm::ArrayRef<int> order) {
  std::vector<const PackedBuffer *> placed; // by offset
  int64_t end = 0;
  for (int index : order) {
    PackedBuffer &buffer = buffers[index];
    int64_t gapStart = 0, best = -1, bestSize = INT64_MAX;
    for (const PackedBuffer *other : placed) {
      if (!other->overlaps(buffer))
        continue;
      int64_t gap = other->offset - gapStart;
      if (gap >= buffer.size && gap < bestSize) {
        best = gapStart;
        bestSize = gap;
      }
      gapStart = std::max(gapStart, other->offset + other->size);
    }
    buffer.offset = best >= 0 ? best : gapStart;
    end = std::max(end, buffer.offset + buffer.size);
    placed.insert(llvm::upper_bound(placed, &buffer,
                                    [](auto *x, auto *y) {
                                      return x->offset < y->offset;
                                    }),
                  &buffer);
  }
  return end;
}

/// How long to look for a better order, in rounds and in pairs of buffers, and
/// how near to the lower bound is near enough.
static constexpr double maxRounds = 300, maxComparisons = 1e8,
                        nearEnough = 1.005;

Packing polyrank::lowering::packBuffers(
    llvm::MutableArrayRef<PackedBuffer> buffers, int64_t alignment) {
  for (PackedBuffer &buffer : buffers)
    buffer.size = llvm::alignTo(buffer.size, alignment);
  Packing packing;
  packing.lowerBound = largestLiveSum(buffers);
  packing.size = INT64_MAX;

  auto length = [](const PackedBuffer &buffer) {
    int64_t total = 0;
    for (const Lifetime &lifetime : buffer.lifetimes)
      total += lifetime.last - lifetime.first + 1;
    return total;
  };
  auto start = [](const PackedBuffer &buffer) {
    return buffer.lifetimes.empty() ? 0 : buffer.lifetimes.front().first;
  };
  using Key = std::function<std::pair<double, double>(const PackedBuffer &)>;
  const std::pair<const char *, Key> orders[] = {
      {"size", [&](auto &b) { return std::pair(-double(b.size), -double(length(b))); }},
      {"lifetime", [&](auto &b) { return std::pair(-double(length(b)), -double(b.size)); }},
      {"size times lifetime",
       [&](auto &b) { return std::pair(-double(b.size) * length(b), double(start(b))); }},
      {"start", [&](auto &b) { return std::pair(double(start(b)), -double(b.size)); }},
  };
  std::vector<PackedBuffer> best;
  std::vector<int> bestOrder;
  auto attempt = [&](const std::vector<int> &order, const char *name) {
    int64_t size = place(buffers, order);
    if (size >= packing.size)
      return;
    packing.size = size;
    packing.order = name;
    best.assign(buffers.begin(), buffers.end());
    bestOrder = order;
  };
  for (auto &[name, key] : orders) {
    std::vector<int> order(buffers.size());
    std::vector<std::pair<double, double>> keys;
    for (const PackedBuffer &buffer : buffers)
      keys.push_back(key(buffer));
    std::iota(order.begin(), order.end(), 0);
    llvm::sort(order, [&](int x, int y) {
      return std::pair(keys[x], x) < std::pair(keys[y], y);
    });
    attempt(order, name);
    if (packing.size == packing.lowerBound)
      break;
  }

  // From the best of them on: whoever lies too high comes earlier next time.
  const double count = buffers.size();
  const int rounds = static_cast<int>(
      std::min(maxRounds, maxComparisons / (count * count + 1)));
  std::vector<double> due(buffers.size());
  for (auto [position, index] : llvm::enumerate(bestOrder))
    due[index] = position;
  std::vector<int> order = bestOrder;
  std::copy(best.begin(), best.end(), buffers.begin());
  for (int round = 0;
       round < rounds && packing.size > nearEnough * packing.lowerBound;
       ++round) {
    for (auto [index, buffer] : llvm::enumerate(buffers))
      if (buffer.offset + buffer.size > packing.lowerBound)
        due[index] -= count / 8;
    llvm::sort(order, [&](int x, int y) {
      return std::pair(due[x], x) < std::pair(due[y], y);
    });
    attempt(order, "squeaky wheel");
  }
  std::copy(best.begin(), best.end(), buffers.begin());
  return packing;
}
