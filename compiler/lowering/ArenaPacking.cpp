// The two regions of an arena, packed.

#include "compiler/lowering/ArenaPacking.h"

using namespace polyrank;
using namespace polyrank::lowering;
using llvm::MutableArrayRef;
using llvm::SmallVector;
using rank::Region;

/// Sets the offsets of one region's units.
static Packing packRegion(MutableArrayRef<ArenaUnit> units, Region region,
                          int64_t alignment) {
  int64_t base = 0;
  std::vector<PackedBuffer> packed;
  SmallVector<int> indices;
  for (auto [i, unit] : llvm::enumerate(units)) {
    if (unit.region != region)
      continue;
    if (unit.isPersistent) {
      unit.packed.offset = base;
      base += unit.packed.size;
    } else {
      packed.push_back(unit.packed);
      indices.push_back(i);
    }
  }
  Packing packing = packBuffers(packed, alignment);
  for (auto [buffer, index] : llvm::zip_equal(packed, indices)) {
    units[index].packed = buffer;
    units[index].packed.offset += base;
  }
  packing.size += base;
  return packing;
}

/// Where `unit` fits between those of the shared region from `begin` to `end`,
/// or nothing.
static std::optional<int64_t> findGap(llvm::ArrayRef<ArenaUnit> units,
                                      const ArenaUnit &unit, int64_t begin,
                                      int64_t end) {
  SmallVector<const PackedBuffer *> others;
  for (const ArenaUnit &other : units)
    if (other.region == Region::Shared && !other.isPersistent &&
        other.packed.overlaps(unit.packed))
      others.push_back(&other.packed);
  llvm::sort(others, [](auto *x, auto *y) { return x->offset < y->offset; });
  int64_t at = begin;
  for (const PackedBuffer *other : others) {
    if (other->offset - at >= unit.packed.size)
      break;
    at = std::max(at, other->offset + other->size);
  }
  if (at + unit.packed.size > end)
    return std::nullopt;
  return at;
}

/// Moves private units into the shared region, which does not grow, until no
/// more than `target` bytes of the others are live at once or none fits.
static void fillSharedGaps(MutableArrayRef<ArenaUnit> units, int64_t begin,
                           int64_t end, int64_t target) {
  while (true) {
    std::vector<PackedBuffer> left;
    for (const ArenaUnit &unit : units)
      if (unit.region == Region::Private && !unit.isPersistent)
        left.push_back(unit.packed);
    auto [position, live] = worstMoment(left);
    if (live <= target)
      return;
    PackedBuffer moment;
    moment.lifetimes = {{position, position}};
    ArenaUnit *largest = nullptr;
    int64_t place = 0;
    for (ArenaUnit &unit : units) {
      if (unit.region != Region::Private || unit.isPersistent ||
          !unit.packed.overlaps(moment) ||
          (largest && unit.packed.size <= largest->packed.size))
        continue;
      if (auto offset = findGap(units, unit, begin, end)) {
        largest = &unit;
        place = *offset;
      }
    }
    if (!largest)
      return;
    largest->region = Region::Shared;
    largest->packed.offset = place;
  }
}

ArenaPacking polyrank::lowering::packArena(MutableArrayRef<ArenaUnit> units,
                                           int64_t alignment) {
  constexpr double nearEnough = 1.005;
  ArenaPacking arena;
  std::vector<PackedBuffer> all;
  int64_t persistent[2] = {0, 0}; // shared, private
  for (ArenaUnit &unit : units) {
    unit.packed.size = llvm::alignTo(unit.packed.size, alignment);
    if (unit.isPersistent)
      persistent[unit.region == Region::Private] += unit.packed.size;
    else
      all.push_back(unit.packed);
  }
  arena.persistentSize = persistent[0] + persistent[1];
  arena.lowerBound = arena.persistentSize + largestLiveSum(all);
  arena.shared = packRegion(units, Region::Shared, alignment);
  arena.privately = packRegion(units, Region::Private, alignment);
  auto target =
      static_cast<int64_t>(nearEnough * static_cast<double>(arena.lowerBound)) -
      arena.shared.size;
  if (arena.privately.size > target) {
    fillSharedGaps(units, persistent[0], arena.shared.size,
                   target - persistent[1]);
    arena.privately = packRegion(units, Region::Private, alignment);
  }
  return arena;
}
