// Offsets for buffers whose lifetimes are known.

#include "compiler/lowering/BufferPacking.h"

#include <algorithm>
#include <functional>
#include <map>

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

int64_t
polyrank::lowering::largestLiveSum(llvm::ArrayRef<PackedBuffer> buffers) {
  // A sweep over starts and ends.
  std::map<int64_t, int64_t> change;
  for (const PackedBuffer &buffer : buffers)
    for (const Lifetime &lifetime : buffer.lifetimes) {
      change[lifetime.first] += buffer.size;
      change[lifetime.last + 1] -= buffer.size;
    }
  int64_t live = 0, largest = 0;
  for (auto [position, difference] : change)
    largest = std::max(largest, live += difference);
  return largest;
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
  for (auto &[name, key] : orders) {
    std::vector<int> order(buffers.size());
    std::vector<std::pair<double, double>> keys;
    for (const PackedBuffer &buffer : buffers)
      keys.push_back(key(buffer));
    for (size_t i = 0; i < order.size(); ++i)
      order[i] = i;
    llvm::sort(order, [&](int x, int y) {
      return std::pair(keys[x], x) < std::pair(keys[y], y);
    });
    int64_t size = place(buffers, order);
    if (size < packing.size) {
      packing.size = size;
      packing.order = name;
      best.assign(buffers.begin(), buffers.end());
    }
    if (size == packing.lowerBound)
      break;
  }
  std::copy(best.begin(), best.end(), buffers.begin());
  return packing;
}
