// How the threads of a GPU share the loops of a kernel.

#pragma once

#include "compiler/target/cuda/Cuda.h"
#include "dialects/graph/Graph.h"
#include "dialects/kernel/Kernel.h"
#include "dialects/rank/Rank.h"

namespace polyrank::cuda {

using kernel::Affine;
using kernel::Dependences;
using kernel::LoopsOp;
using kernel::Variable;

/// The threads of a warp.
inline constexpr int64_t warpThreads = 32;
/// The most threads and bytes of shared memory that a block may have on every
/// architecture (CUDA C++ Programming Guide, Technical Specifications per
/// Compute Capability; sm_86 has 99 KB, others more).
inline constexpr int64_t mostThreads = 1024;
/// The shared memory that a kernel may declare, in bytes.
inline constexpr int64_t mostSharedBytes = 48 << 10;
/// The side of a tile of a map.
inline constexpr int64_t tileSide = 32;
/// The most blocks of a launch: 2^31 - 1.
inline constexpr int64_t mostBlocks = (int64_t(1) << 31) - 1;

/// What `#cuda.schedule` says, as a value. Cuda.td has what it means.
struct KernelSchedule {
  LoopKind kind = LoopKind::Map;
  /// Parallel variables that are not the vector variable, outermost first.
  llvm::SmallVector<int> items;
  /// The variable that is contiguous in memory; -1 if everything is a scalar.
  int vector = -1;
  int64_t lanes = 1;
  int64_t vectors = 1;
  /// Map: the item along which some loads are contiguous; -1 if there is none.
  int tiled = -1;
  /// Items that are whole in each tile, as the vector variable then is.
  llvm::SmallVector<int> inside;
  /// Reduced variables that are not the vector variable, outermost first.
  llvm::SmallVector<int> reductions;
  int64_t threads = 0;
  int64_t sharing = 1;
  int64_t part = 0;
  int64_t kept = 0;

  /// The number of vectors along the vector variable.
  int64_t numVectors(LoopsOp loops) const;
  /// The number of points of the items.
  int64_t numItems(LoopsOp loops) const;
  /// Row: the vectors that the threads of one point share. Column: the points
  /// of the reductions.
  int64_t numShared(LoopsOp loops) const;
  /// The points of a tile beside those of the tiled variable.
  int64_t numInside(LoopsOp loops) const;
  /// The number of tiles along the vector variable.
  int64_t numTilesOfVector(LoopsOp loops) const;
  /// The bytes of shared memory of a block.
  int64_t countSharedBytes(LoopsOp loops) const;
  /// Returns true if a load is read along the tiled variable.
  bool isReadInTiles(kernel::LoadOp load, const Dependences &dependences) const;
  /// `blocks` of a launch.
  int64_t numBlocks(LoopsOp loops) const;

  /// The attribute on the loops.
  ScheduleAttr write(LoopsOp loops) const;
  static mlir::FailureOr<KernelSchedule> read(LoopsOp loops);
  /// Checks that code can be generated for a schedule that another program may
  /// have written:
  /// 1. Every variable runs once: as the vector, among the items if it is
  ///    parallel, or among the reductions if it is reduced.
  /// 2. The kind is that of the loops.
  /// 3. Lanes are a power of two, divide the vector variable of a row or a
  ///    scatter, and are one in a column.
  /// 4. Threads are a multiple of 32, at most 1,024, and there are at most
  ///    2^31 - 1 blocks.
  /// 5. `sharing` is 1 in a map, at most `threads` in a row and a power of two
  ///    or all threads, and `threads` / 32 in a column.
  /// 6. Maps alone have several vectors, columns parts, and rows keep their
  ///    values, all of them.
  /// 7. A tiled variable is one of a map's items, and those inside of it are
  ///    others; a thread then has one value of a vector, and the threads are a
  ///    whole part of a tile.
  /// 8. A block has at most 48 KB of shared memory.
  /// Emits an error with the number of the rule.
  mlir::LogicalResult verify(LoopsOp loops) const;
};

/// Chooses how loops run.
KernelSchedule scheduleLoops(LoopsOp loops);

/// The most values of each part of a long sum; 0 if one kernel sums all
/// (`KernelTarget::getSumPart`).
int64_t chooseSumPart(graph::ReduceOp sum);

/// An estimate of the 32-byte sectors that the loops' loads and stores request,
/// each counted as often as a warp asks for it.
double countSectors(LoopsOp loops, const KernelSchedule &schedule);

/// What the threads of a launch ask of memory, in bytes.
struct Requests {
  /// Read and written by all, each as often as a pass does so. Of a scatter,
  /// what its updates take beside the search for equal indices.
  int64_t bytes = 0;
  /// Read by a thread before it needs any of it.
  int64_t loadedAtOnce = 0;
};
Requests countRequests(LoopsOp loops, const KernelSchedule &schedule);

/// Returns true if a condition has one value for all `lanes` adjacent values of
/// the variable, counted from a multiple of `lanes`.
bool isUniform(mlir::Value condition, int variable, int64_t lanes,
               const Dependences &dependences);

/// Returns true if an expression is a multiple of `lanes` at each multiple of
/// `lanes` of the variable, along which it counts one by one.
bool isAligned(const Affine &offset, int variable, int64_t lanes);

} // namespace polyrank::cuda
