// Computes offsets for buffers whose lifetimes are known.

#include "compiler/lowering/BufferPacking.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>

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

void LiveBytes::add(llvm::ArrayRef<Lifetime> lifetimes, int64_t bytes) {
  for (const Lifetime &lifetime : lifetimes) {
    changes[lifetime.first] += bytes;
    changes[lifetime.last + 1] -= bytes;
  }
}

int64_t LiveBytes::getLargest() const {
  int64_t live = 0, largest = 0;
  for (auto [position, change] : changes)
    largest = std::max(largest, live += change);
  return largest;
}

namespace {
/// The gap that a buffer is placed into: the smallest one, or the lowest.
enum class Fit { Best, First };

/// Places the same buffers in many orders.
class Placer {
public:
  Placer(llvm::MutableArrayRef<PackedBuffer> buffers, int64_t barrier);

  /// Places the buffers one after another, each into a gap between those that
  /// it overlaps in time, or after them. Returns the end.
  int64_t place(llvm::ArrayRef<int> order, Fit rule);

private:
  llvm::ArrayRef<uint8_t> overlapsOf(int index);
  int64_t findOffset(int index, Fit rule);
  void insert(int index);

  /// So many buffers have their overlaps in 64 MiB.
  static constexpr size_t mostKept = 8192;

  llvm::MutableArrayRef<PackedBuffer> buffers;
  int64_t barrier;
  std::vector<Lifetime> hulls; // from first to last position
  /// By buffer: for each buffer 1 if they overlap in time. Of many buffers only
  /// the latest one's are kept.
  std::vector<std::vector<uint8_t>> overlaps;
  /// The placed buffers by offset, in arrays of their own, so that a look over
  /// all of them reads little memory.
  /// @{
  std::vector<int> placed;
  std::vector<int64_t> offsets, ends;
  /// @}
};
} // namespace

Placer::Placer(llvm::MutableArrayRef<PackedBuffer> buffers, int64_t barrier)
    : buffers(buffers), barrier(barrier),
      overlaps(buffers.size() <= mostKept ? buffers.size() : 1) {
  for (const PackedBuffer &buffer : buffers) {
    Lifetime hull = {INT64_MAX, INT64_MIN}; // nowhere
    for (const Lifetime &lifetime : buffer.lifetimes)
      hull = {std::min(hull.first, lifetime.first),
              std::max(hull.last, lifetime.last)};
    hulls.push_back(hull);
  }
}

llvm::ArrayRef<uint8_t> Placer::overlapsOf(int index) {
  bool isKept = overlaps.size() == buffers.size();
  std::vector<uint8_t> &row = overlaps[isKept ? index : 0];
  if (isKept && !row.empty())
    return row;
  row.resize(buffers.size());
  const PackedBuffer &mine = buffers[index];
  for (auto [i, other] : llvm::enumerate(buffers))
    row[i] = hulls[index].overlaps(hulls[i]) &&
             ((mine.lifetimes.size() == 1 && other.lifetimes.size() == 1) ||
              mine.overlaps(other));
  return row;
}

/// Finds the offset of the buffer with this index among those that are placed.
int64_t Placer::findOffset(int index, Fit rule) {
  const PackedBuffer &buffer = buffers[index];
  const uint8_t *overlapsMine = overlapsOf(index).data();
  int64_t gapStart = 0, best = -1, bestSize = INT64_MAX;
  auto fit = [&](int64_t start, int64_t limit) {
    int64_t gap = limit - start;
    bool isBetter = rule == Fit::First ? best < 0 : gap < bestSize;
    if (gap >= buffer.size && isBetter) {
      best = start;
      bestSize = gap;
    }
  };
  auto fitBelow = [&](int64_t limit) {
    fit(gapStart, std::min(limit, barrier));
    if (!buffer.isLow)
      fit(std::max(gapStart, barrier), limit);
  };
  // All time goes into this loop. Which buffers overlap cannot be predicted, so
  // those that do not are masked: the one branch is taken at a gap that is
  // large enough, which is rare.
  const size_t count = placed.size();
  for (size_t at = 0; at < count; ++at) {
    const int64_t unlessItOverlaps = int64_t(overlapsMine[placed[at]]) - 1;
    if (((offsets[at] - gapStart) | unlessItOverlaps) >= buffer.size)
      fitBelow(offsets[at]);
    gapStart = std::max(gapStart, ends[at] & ~unlessItOverlaps);
  }
  fitBelow(barrier);
  return best >= 0 ? best : std::max(gapStart, barrier);
}

void Placer::insert(int index) {
  int64_t offset = buffers[index].offset;
  auto at = llvm::upper_bound(offsets, offset) - offsets.begin();
  placed.insert(placed.begin() + at, index);
  offsets.insert(offsets.begin() + at, offset);
  ends.insert(ends.begin() + at, offset + buffers[index].size);
}

int64_t Placer::place(llvm::ArrayRef<int> order, Fit rule) {
  placed.clear(), offsets.clear(), ends.clear();
  int64_t end = 0;
  for (int index : order) {
    PackedBuffer &buffer = buffers[index];
    buffer.offset = findOffset(index, rule);
    bool fits = !buffer.isLow || buffer.offset + buffer.size <= barrier;
    end = fits ? std::max(end, buffer.offset + buffer.size) : INT64_MAX;
    insert(index);
  }
  return end;
}

/// The limits of the search for a better order, in rounds and in pairs of
/// buffers, and the ratio to the lower bound at which it stops.
static constexpr double maxRounds = 4000, maxComparisons = 1e8,
                        nearEnough = 1.005;
/// Rounds without a better packing before the search returns to the best, and
/// before it ends.
static constexpr int patience = 40, mostIdleRounds = 400;

Packing
polyrank::lowering::packBuffers(llvm::MutableArrayRef<PackedBuffer> buffers,
                                int64_t alignment, int64_t barrier) {
  for (PackedBuffer &buffer : buffers)
    buffer.size = llvm::alignTo(buffer.size, alignment);
  Packing packing;
  LiveBytes live;
  for (const PackedBuffer &buffer : buffers)
    live.add(buffer.lifetimes, buffer.size);
  packing.lowerBound = live.getLargest();
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
      {"size",
       [&](auto &b) { return std::pair(-double(b.size), -double(length(b))); }},
      {"lifetime",
       [&](auto &b) { return std::pair(-double(length(b)), -double(b.size)); }},
      {"size times lifetime",
       [&](auto &b) {
         return std::pair(-double(b.size) * length(b), double(start(b)));
       }},
      {"start",
       [&](auto &b) { return std::pair(double(start(b)), -double(b.size)); }},
  };
  Placer placer(buffers, barrier);
  std::vector<PackedBuffer> best(buffers.begin(), buffers.end());
  std::vector<int> bestOrder(buffers.size());
  std::iota(bestOrder.begin(), bestOrder.end(), 0);
  auto attempt = [&](const std::vector<int> &order, const char *name,
                     Fit rule) {
    int64_t size = placer.place(order, rule);
    if (size >= packing.size)
      return false;
    packing.size = size;
    packing.order = name;
    best.assign(buffers.begin(), buffers.end());
    bestOrder = order;
    return true;
  };
  for (auto &[name, key] : orders) {
    std::vector<int> order(buffers.size());
    std::vector<std::pair<double, double>> keys;
    for (const PackedBuffer &buffer : buffers)
      keys.push_back(key(buffer));
    std::iota(order.begin(), order.end(), 0);
    llvm::sort(order, [&](int x, int y) {
      return std::tuple(!buffers[x].isLow, keys[x], x) <
             std::tuple(!buffers[y].isLow, keys[y], y);
    });
    attempt(order, name, Fit::Best);
    attempt(order, name, Fit::First);
    if (packing.size == packing.lowerBound)
      break;
  }

  // Starting with the best order, buffers that lie too high come earlier in the
  // next round. The distance is random, so that rounds do not repeat: often
  // far, often a little. The two rules for gaps take turns.
  const double count = buffers.size();
  const int rounds = static_cast<int>(
      std::min(maxRounds, maxComparisons / (count * count + 1)));
  std::vector<double> due(buffers.size());
  std::vector<int> order = bestOrder;
  std::minstd_rand random; // the same numbers every time
  auto draw = [&] {
    return static_cast<double>(random()) / std::minstd_rand::max();
  };
  int sinceReturn = patience, idle = 0;
  for (int round = 0; round < rounds && idle < mostIdleRounds &&
                      packing.size > nearEnough * packing.lowerBound;
       ++round, ++idle) {
    if (sinceReturn++ == patience) {
      sinceReturn = 0;
      std::copy(best.begin(), best.end(), buffers.begin());
      for (auto [position, index] : llvm::enumerate(bestOrder))
        due[index] = position;
    }
    for (auto [index, buffer] : llvm::enumerate(buffers))
      if (buffer.offset + buffer.size >
          (buffer.isLow ? std::min(barrier, packing.lowerBound)
                        : packing.lowerBound))
        due[index] -= std::pow(draw(), 1 + round % 4) * count / 2;
    llvm::sort(order, [&](int x, int y) {
      return std::pair(due[x], x) < std::pair(due[y], y);
    });
    if (attempt(order, "squeaky wheel", round % 2 ? Fit::First : Fit::Best))
      sinceReturn = idle = 0;
  }
  std::copy(best.begin(), best.end(), buffers.begin());
  return packing;
}
