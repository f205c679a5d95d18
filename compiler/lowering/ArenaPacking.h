// Packs the two regions of an arena.

#pragma once

#include "compiler/lowering/BufferPacking.h"
#include "dialects/rank/Rank.h"

namespace polyrank::lowering {

/// A unit of memory with one offset in the arena.
struct ArenaUnit {
  PackedBuffer packed;
  rank::Region region = rank::Region::Private;
  /// Live from the first step to the last.
  bool isPersistent = false;
};

/// Sizes in bytes.
struct ArenaPacking {
  Packing shared, privately;
  /// The sum over both regions.
  int64_t lowerBound = 0;
};

/// Gives each unit its offset in its region, a multiple of `alignment`:
/// persistent units first, the others after them. Each region alone is as large
/// as its own peak, and the two peaks may be at different times. If the arena
/// would exceed the lower bound by more than 0.5 %, private units are moved
/// into gaps of the shared region (their `region` changes). That region grows
/// if the gaps are not enough, but only as far as it must, since its pages are
/// small.
ArenaPacking packArena(llvm::MutableArrayRef<ArenaUnit> units,
                       int64_t alignment);

} // namespace polyrank::lowering
