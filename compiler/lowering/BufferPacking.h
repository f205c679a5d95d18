// Computes offsets for buffers whose lifetimes are known.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

namespace polyrank::lowering {

/// Positions first to last, both included.
struct Lifetime {
  int64_t first, last;
  bool overlaps(const Lifetime &other) const {
    return first <= other.last && other.first <= last;
  }
};

/// The same positions as sorted, disjoint intervals.
llvm::SmallVector<Lifetime> joinLifetimes(llvm::ArrayRef<Lifetime> lifetimes);

/// A buffer that is live in some intervals of the command order; between them
/// other buffers may use its bytes.
struct PackedBuffer {
  int64_t size = 0; // bytes, rounded up to the alignment by packBuffers
  llvm::SmallVector<Lifetime> lifetimes; // disjoint
  int64_t offset = -1;
  bool isLow = false; // see packBuffers

  bool overlaps(const PackedBuffer &other) const {
    for (const Lifetime &mine : lifetimes)
      for (const Lifetime &theirs : other.lifetimes)
        if (mine.overlaps(theirs))
          return true;
    return false;
  }
};

/// The sum of live sizes at each position.
class LiveBytes {
public:
  void add(llvm::ArrayRef<Lifetime> lifetimes, int64_t bytes);
  int64_t getLargest() const;

private:
  std::map<int64_t, int64_t> changes; // by position: the change from there on
};

struct Packing {
  /// Bytes from the first offset to the end of the last buffer.
  int64_t size = 0;
  /// The largest live sum: no packing is smaller.
  int64_t lowerBound = 0;
  /// The order that gave the smallest size.
  std::string order;
};

/// Gives each buffer an offset, a multiple of `alignment`, so that buffers that
/// are live at one position do not overlap. Minimises the size: dynamic storage
/// allocation is NP-hard (Garey, Johnson 1979), so buffers are placed best-fit
/// and first-fit in several greedy orders (by size, by lifetime, by their
/// product, by start).
/// The best order is then refined in rounds: buffers that lie above the lower
/// bound are moved forward in the order by a random distance (squeaky wheel
/// optimization: Joslin, Clements 1999). The search ends where the size is near
/// enough to the lower bound, where many rounds found nothing better, or after
/// a number of rounds that depends on the number of buffers; packing is
/// deterministic.
///
/// No buffer crosses `barrier`, and those with `isLow` lie below it; if they do
/// not fit below it the size is INT64_MAX.
Packing packBuffers(llvm::MutableArrayRef<PackedBuffer> buffers,
                    int64_t alignment = 64, int64_t barrier = 0);

} // namespace polyrank::lowering
