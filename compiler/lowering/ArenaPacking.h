// The two regions of an arena, packed.

#pragma once

#include "compiler/lowering/BufferPacking.h"
#include "dialects/rank/Rank.h"

namespace polyrank::lowering {

/// What has one offset in the arena.
struct ArenaUnit {
  PackedBuffer packed;
  rank::Region region = rank::Region::Private;
  /// Live from the first step to the last.
  bool isPersistent = false;
};

/// Sizes in bytes.
struct ArenaPacking {
  Packing shared, privately;
  /// Of both regions together.
  int64_t lowerBound = 0;
};

/// Gives each unit its offset in its region, a multiple of `alignment`:
/// persistent ones first, the others behind them. Each region alone is as large
/// as its own worst moment, and these need not be the same: where the arena
/// would be more than 0.5 % above the lower bound, private units are moved into
/// gaps of the shared region (their `region` changes), which grows where that
/// is not enough, but no further than it must, since its pages are small.
ArenaPacking packArena(llvm::MutableArrayRef<ArenaUnit> units,
                       int64_t alignment);

} // namespace polyrank::lowering
