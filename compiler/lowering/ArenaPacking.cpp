// Packs the two regions of an arena.

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

ArenaPacking polyrank::lowering::packArena(MutableArrayRef<ArenaUnit> units,
                                           int64_t alignment) {
  // A larger shared region costs more than a gap.
  constexpr double nearEnough = 1.005, nearEnoughToStay = 1.009;
  ArenaPacking arena;
  std::vector<PackedBuffer> buffers; // the transient ones
  SmallVector<ArenaUnit *> transient;
  LiveBytes live;
  int64_t persistent[2] = {0, 0}; // shared, private
  for (ArenaUnit &unit : units) {
    unit.packed.size = llvm::alignTo(unit.packed.size, alignment);
    if (unit.isPersistent) {
      persistent[unit.region == Region::Private] += unit.packed.size;
      continue;
    }
    live.add(unit.packed.lifetimes, unit.packed.size);
    transient.push_back(&unit);
    buffers.push_back(unit.packed);
    buffers.back().isLow = unit.region == Region::Shared;
  }
  const int64_t stays = persistent[0] + persistent[1];
  arena.lowerBound = stays + live.getLargest();
  arena.shared = packRegion(units, Region::Shared, alignment);
  arena.privately = packRegion(units, Region::Private, alignment);
  const int64_t shared = arena.shared.size - persistent[0];
  if (shared == 0)
    return arena;

  // Pack both regions together: shared units below a barrier, and private units
  // that come to lie below it become shared. The barrier goes up in steps,
  // finally to the end.
  int64_t size = shared + arena.privately.size - persistent[1];
  const int64_t farthest = size;
  constexpr int steps = 24;
  for (int step = 0; step <= steps; ++step) {
    if (static_cast<double>(stays + size) <=
        (step == 0 ? nearEnough : nearEnoughToStay) *
            static_cast<double>(arena.lowerBound))
      break;
    const int64_t barrier =
        llvm::alignTo(shared + (farthest - shared) * step / steps, alignment);
    Packing packing = packBuffers(buffers, alignment, barrier);
    if (packing.size >= size)
      continue;
    size = packing.size;
    arena.shared.size = std::min(size, barrier) + persistent[0];
    arena.privately.size = std::max<int64_t>(size - barrier, 0) + persistent[1];
    for (auto [unit, buffer] : llvm::zip_equal(transient, buffers)) {
      bool isBelow = buffer.offset < barrier;
      unit->region = isBelow ? Region::Shared : Region::Private;
      unit->packed.offset =
          buffer.offset + (isBelow ? persistent[0] : persistent[1] - barrier);
    }
  }
  return arena;
}
