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

/// Where `unit` fits between `placed`, which are sorted by offset, from `begin`
/// to `end`, or nothing.
static std::optional<int64_t> findGap(llvm::ArrayRef<const ArenaUnit *> placed,
                                      const ArenaUnit &unit, int64_t begin,
                                      int64_t end) {
  int64_t at = begin;
  for (const ArenaUnit *other : placed) {
    if (!other->packed.overlaps(unit.packed))
      continue;
    if (other->packed.offset - at >= unit.packed.size)
      break;
    at = std::max(at, other->packed.offset + other->packed.size);
  }
  if (at + unit.packed.size > end)
    return std::nullopt;
  return at;
}

/// Moves private units into the shared region, which does not grow, until no
/// more than `target` bytes of the others are live at once or none fits: at the
/// worst moment the largest that fits.
static void fillSharedGaps(MutableArrayRef<ArenaUnit> units, int64_t begin,
                           int64_t end, int64_t target) {
  auto isLower = [](const ArenaUnit *x, const ArenaUnit *y) {
    return x->packed.offset < y->packed.offset;
  };
  SmallVector<const ArenaUnit *> placed; // by offset
  SmallVector<ArenaUnit *> left;         // by size, the largest first
  for (ArenaUnit &unit : units) {
    if (unit.isPersistent)
      continue;
    if (unit.region == Region::Shared)
      placed.push_back(&unit);
    else
      left.push_back(&unit);
  }
  llvm::sort(placed, isLower);
  llvm::stable_sort(left, [](const ArenaUnit *x, const ArenaUnit *y) {
    return x->packed.size > y->packed.size;
  });
  while (true) {
    std::vector<PackedBuffer> buffers;
    for (const ArenaUnit *unit : left)
      buffers.push_back(unit->packed);
    auto [position, live] = worstMoment(buffers);
    if (live <= target)
      return;
    PackedBuffer moment;
    moment.lifetimes = {{position, position}};
    std::optional<int64_t> place;
    auto *chosen = llvm::find_if(left, [&](const ArenaUnit *unit) {
      return unit->packed.overlaps(moment) &&
             (place = findGap(placed, *unit, begin, end));
    });
    if (chosen == left.end())
      return;
    ArenaUnit *unit = *chosen;
    left.erase(chosen);
    unit->region = Region::Shared;
    unit->packed.offset = *place;
    placed.insert(llvm::upper_bound(placed, unit, isLower), unit);
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
