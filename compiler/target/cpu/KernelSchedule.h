// How the loops of a kernel run: order, vectors, blocks, passes.

#pragma once

#include "compiler/target/cpu/Cpu.h"
#include "dialects/graph/Graph.h"
#include "dialects/kernel/Kernel.h"
#include "dialects/rank/Rank.h"

namespace polyrank::cpu {

using kernel::Affine;
using kernel::Dependences;
using kernel::LoopsOp;
using kernel::Variable;

/// The runtime runs `range` items in any partition. One item is
///
///   Map      for a block of the vector variable { [for a tile] stores }
///   Row      passes over the reduced variables, the inner one as vectors;
///            a fixed tree adds the lanes at the end of a pass
///   Column   for a block of the vector variable { passes over the reduced
///            variables, one by one }: lanes never meet
///   Scatter  zeros for a block of destination rows, then all updates that
///            fall into it, in ascending order
///
/// where the item fixes all other parallel variables. Each result element is
/// computed by one item in a fixed order, so the partition changes no bit. The
/// schedule includes everything that a reduction's bits depend on: in a Row,
/// lane i adds every `lanes`-th value, and then the lanes are folded, lane i
/// with lane i + half; in a Column, values are added one by one, in parts of
/// `part`. `#cpu.schedule` is its textual form.
struct KernelSchedule {
  using Kind = LoopKind;
  Kind kind = Kind::Map;
  /// Variables that the item fixes, outermost first; the tile variable is among
  /// them (in blocks of `tile`).
  llvm::SmallVector<int> itemVariables;
  /// The variable that is contiguous in memory; -1 if everything is a scalar.
  int vectorVariable = -1;
  int64_t lanes = 16;
  /// Elements of the vector variable per item; 0 means all.
  int64_t block = 0;
  /// A variable along which some load is contiguous but the stores are not. It
  /// runs inside the vector loop over `tile` values, so that what the load
  /// fetches is used before it leaves the cache. -1 if there is none.
  int tileVariable = -1;
  int64_t tile = 16;
  /// Reduced variables whose values run one by one, outermost first.
  llvm::SmallVector<int> reductionVariables;
  /// Column: how many values are added one after another before the partial
  /// sums are added, so that the rounding error of a sum grows with the square
  /// roots of the part's length and of the number of parts, not with that of
  /// their product (Higham, "The accuracy of floating point summation", 1993).
  /// 0 means all.
  int64_t part = 0;
  /// Scatter: rows of the destination per item.
  int64_t scatterRows = 0;

  /// Row: expensive values that several passes need. The first of these passes
  /// leaves them in a row of scratch memory (on the stack) for the others.
  llvm::SmallVector<mlir::Value> kept;

  /// A thread takes a multiple of this many items, so that it has enough work.
  int64_t grain = 1;

  int64_t numBlocks(LoopsOp loops) const;
  int64_t numTiles(LoopsOp loops) const;
  /// The number of items, `range` of a launch.
  int64_t numItems(LoopsOp loops) const;

  /// The attribute on the loops, and on their kernel; in it `kept` are numbers
  /// of ops.
  ScheduleAttr write(LoopsOp loops) const;
  static mlir::FailureOr<KernelSchedule> read(LoopsOp loops);
  /// Checks that code can be generated for a schedule that another program may
  /// have written:
  /// 1. Every variable runs once: as the vector, among the items if it is
  ///    parallel, or among the reductions if it is reduced.
  /// 2. The kind is that of the loops.
  /// 3. Rows alone keep values, one row per item.
  /// 4. Lanes are a power of two and divide a block; sizes are not negative,
  /// and
  ///    the grain is at least 1.
  /// 5. A tiled variable is one of a map's items.
  /// Emits an error with the number of the rule.
  mlir::LogicalResult verify(LoopsOp loops) const;
};

KernelSchedule scheduleLoops(LoopsOp loops);

/// The number of adjacent values in each part of a sum over the last dims, if
/// the parts are the items of a kernel of their own: all threads then have
/// work, and the rounding error grows with the part and not with the whole. 0
/// if one kernel sums all.
int64_t chooseSumPart(graph::ReduceOp sum);

/// The number of elements in loads and stores whose lanes are not adjacent in
/// memory, which fusion should not increase.
int64_t stridedAccesses(LoopsOp loops, const KernelSchedule &schedule);

} // namespace polyrank::cpu
