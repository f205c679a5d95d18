// How the loops of a kernel run: order, vectors, blocks, passes.

#pragma once

#include "compiler/codegen/Loops.h"

namespace polyrank::cpu {

using codegen::Affine;
using codegen::Function;
using codegen::Loops;
using codegen::Node;
using codegen::Store;
using codegen::Variable;

/// The runtime runs `range` items in any partition; one item is
///
///   Map      for a block of the vector variable { [for a tile] stores }
///   Row      passes over the reduced variables, the inner one as vectors;
///            a fixed tree adds the lanes at the end of a pass
///   Column   for a block of the vector variable { passes over the reduced
///            variables, one by one }: lanes never meet
///   Scatter  zeros for a block of destination rows, then all updates that
///            fall into it, in ascending order
///
/// where all other parallel variables are fixed by the item. Each result
/// element is computed by one item in a fixed order, so that a partition
/// changes no bit.
struct Schedule {
  enum Kind { Map, Row, Column, Scatter };
  Kind kind = Map;
  /// Fixed by the item, outermost first; the tile variable is among them (by
  /// blocks of `tile`).
  llvm::SmallVector<int> itemVariables;
  /// Contiguous in memory; -1 where everything is a scalar.
  int vectorVariable = -1;
  int64_t lanes = 16;
  /// Elements of the vector variable per item; 0: all.
  int64_t block = 0;
  /// A variable that some load is contiguous in where the stores are not: runs
  /// inside the vector loop over `tile` values, so that what the load fetches
  /// is used before it leaves the cache. -1: none.
  int tileVariable = -1;
  int64_t tile = 16;
  /// Run one by one, outermost first.
  llvm::SmallVector<int> reductionVariables;
  /// Column: how many values are reduced one after another before these parts
  /// are, so that the rounding error of a sum grows with the roots of both
  /// numbers and not with that of their product (Higham, "The accuracy of
  /// floating point summation", 1993). 0: all.
  int64_t part = 0;
  /// Scatter: rows of the destination per item.
  int64_t scatterRows = 0;

  /// Row: expensive nodes that several passes need, which the first of them
  /// leaves in a row of scratch memory (on the stack) for the others.
  llvm::SmallVector<int> kept;

  int64_t range = 1, grain = 1;

  int64_t numBlocks(const Loops &loops) const;
  int64_t numTiles(const Loops &loops) const;
};

/// Merges variables that are everywhere one, then decides.
Schedule scheduleLoops(Loops &loops);

/// Per node, the passes in which its value is computed, as a bit set. Nodes in
/// `kept` are computed in their first pass only.
std::vector<uint64_t> getComputingPasses(const Loops &loops,
                                         llvm::ArrayRef<int> kept);

/// Loads and stores whose lanes are not neighbours in memory, in elements: what
/// fusion should not add to.
int64_t stridedAccesses(const Loops &loops, const Schedule &schedule);

} // namespace polyrank::cpu
