// What a kernel schedule counts, its attribute, and what is checked of it.

#include "compiler/target/cuda/KernelSchedule.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::kernel;
using namespace polyrank::cuda;

static int64_t product(LoopsOp loops, ArrayRef<int> variables) {
  int64_t count = 1;
  for (int v : variables)
    count *= loops.getVariables()[v].size;
  return count;
}

int64_t KernelSchedule::numVectors(LoopsOp loops) const {
  return vector < 0
             ? 1
             : llvm::divideCeil(loops.getVariables()[vector].size, lanes);
}

int64_t KernelSchedule::numItems(LoopsOp loops) const {
  return product(loops, items);
}

int64_t KernelSchedule::numShared(LoopsOp loops) const {
  return product(loops, reductions) *
         (kind == LoopKind::Row ? numVectors(loops) : 1);
}

int64_t KernelSchedule::numBlocks(LoopsOp loops) const {
  switch (kind) {
  case LoopKind::Map:
    if (tiled >= 0) {
      int64_t size = loops.getVariables()[tiled].size;
      return numItems(loops) / product(loops, inside) / size *
             llvm::divideCeil(size, tileSide) * numTilesOfVector(loops);
    }
    return llvm::divideCeil(numItems(loops) * numVectors(loops),
                            threads * vectors);
  case LoopKind::Row:
    return llvm::divideCeil(numItems(loops), threads / sharing);
  case LoopKind::Column:
    return numItems(loops) * llvm::divideCeil(numVectors(loops), warpThreads);
  case LoopKind::Scatter:
    return llvm::divideCeil(
        numItems(loops) * numShared(loops) *
            llvm::divideCeil(numVectors(loops), warpThreads),
        threads / warpThreads);
  }
  llvm_unreachable("covered switch");
}

int64_t KernelSchedule::numInside(LoopsOp loops) const {
  return inside.empty() ? tileSide : product(loops, inside) * numVectors(loops);
}

int64_t KernelSchedule::numTilesOfVector(LoopsOp loops) const {
  return inside.empty() ? llvm::divideCeil(numVectors(loops), tileSide) : 1;
}

bool KernelSchedule::isReadInTiles(LoadOp load,
                                   const Dependences &dependences) const {
  ArrayRef<int64_t> c = load.getOffset().coefficients;
  // In windows also what is contiguous along the vector variable.
  return tiled >= 0 && c[tiled] == 1 && c[vector] != 0 &&
         (c[vector] != 1 || !inside.empty()) &&
         llvm::none_of(load.getIndices(), [&](Value index) {
           return dependences.dependsOn(index, tiled) ||
                  dependences.dependsOn(index, vector);
         });
}

int64_t KernelSchedule::countSharedBytes(LoopsOp loops) const {
  int64_t bytes = 0;
  auto add = [&](Type type, int64_t count) {
    bytes += llvm::divideCeil(type.getIntOrFloatBitWidth(), 8) * count;
  };
  if (tiled >= 0) {
    Dependences dependences(loops);
    for (LoadOp load : loops.getBlock().getOps<LoadOp>())
      if (isReadInTiles(load, dependences))
        add(load.getType(), numInside(loops) * (tileSide + 1));
  }
  int64_t slots = kind == LoopKind::Column && sharing > 1 ? threads
                  : kind == LoopKind::Row && sharing > warpThreads
                      ? sharing / warpThreads
                      : 0;
  for (ReduceOp reduce : loops.getBlock().getOps<ReduceOp>())
    add(reduce.getType(), slots);
  return bytes;
}

ScheduleAttr KernelSchedule::write(LoopsOp loops) const {
  SmallVector<int64_t> written(items.begin(), items.end());
  SmallVector<int64_t> reduced(reductions.begin(), reductions.end());
  SmallVector<int64_t> whole(inside.begin(), inside.end());
  return ScheduleAttr::get(loops.getContext(), kind, written, vector, lanes,
                           vectors, tiled, whole, reduced, threads, sharing,
                           part, kept);
}

FailureOr<KernelSchedule> KernelSchedule::read(LoopsOp loops) {
  auto written = dyn_cast_or_null<ScheduleAttr>(loops.getScheduleAttr());
  if (!written)
    return loops.emitOpError("has no schedule for cuda: run lower-kernels");
  KernelSchedule schedule;
  schedule.kind = written.getKind();
  schedule.items.assign(written.getItems().begin(), written.getItems().end());
  schedule.vector = static_cast<int>(written.getVector());
  schedule.lanes = written.getLanes();
  schedule.vectors = written.getVectors();
  schedule.tiled = static_cast<int>(written.getTiled());
  schedule.inside.assign(written.getInside().begin(),
                         written.getInside().end());
  schedule.reductions.assign(written.getReductions().begin(),
                             written.getReductions().end());
  schedule.threads = written.getThreads();
  schedule.sharing = written.getSharing();
  schedule.part = written.getPart();
  schedule.kept = written.getKept();
  if (failed(schedule.verify(loops)))
    return failure();
  return schedule;
}

/// [1]
static bool runsEachOnce(const KernelSchedule &schedule,
                         ArrayRef<Variable> variables) {
  SmallVector<int> uses(variables.size());
  auto use = [&](int variable) {
    bool exists = variable >= 0 && variable < static_cast<int>(uses.size());
    if (exists)
      ++uses[variable];
    return exists;
  };
  if (schedule.vector != -1 && !use(schedule.vector))
    return false;
  for (int v : schedule.items)
    if (!use(v) || variables[v].isReduced)
      return false;
  for (int v : schedule.reductions)
    if (!use(v) || !variables[v].isReduced)
      return false;
  return llvm::all_of(uses, [](int count) { return count == 1; });
}

/// [2]
static LoopKind kindOf(LoopsOp loops, int vector) {
  ArrayRef<Variable> variables = loops.getVariables();
  if (loops.getScatter())
    return LoopKind::Scatter;
  if (llvm::none_of(variables, [](const Variable &v) { return v.isReduced; }))
    return LoopKind::Map;
  return vector >= 0 && variables[vector].isReduced ? LoopKind::Row
                                                    : LoopKind::Column;
}

LogicalResult KernelSchedule::verify(LoopsOp loops) const {
  ArrayRef<Variable> variables = loops.getVariables();
  if (!runsEachOnce(*this, variables))
    return loops.emitOpError("[1] has a schedule that does not run each "
                             "variable once, in its place");
  LoopKind expected = kindOf(loops, vector);
  if (kind != expected)
    return loops.emitOpError("[2] is scheduled as a ")
           << stringifyLoopKind(kind) << "; it is a "
           << stringifyLoopKind(expected);
  if (lanes < 1 || !llvm::isPowerOf2_64(lanes) || (vector < 0 && lanes != 1) ||
      ((kind == LoopKind::Row || kind == LoopKind::Scatter) && vector >= 0 &&
       variables[vector].size % lanes != 0) ||
      (kind == LoopKind::Column && lanes != 1))
    return loops.emitOpError("[3] has ") << lanes
                                         << " lanes: they are a power of two, "
                                            "divide what is reduced, and are "
                                            "one in a column";
  if (threads < warpThreads || threads > mostThreads ||
      threads % warpThreads != 0)
    return loops.emitOpError("[4] has blocks of ")
           << threads << " threads: they are a multiple of " << warpThreads
           << ", at most " << mostThreads;
  bool isShared =
      kind == LoopKind::Row
          ? sharing >= 1 && sharing <= threads &&
                (sharing == threads ||
                 (llvm::isPowerOf2_64(sharing) && sharing <= warpThreads))
      : kind == LoopKind::Column ? sharing == threads / warpThreads
                                 : sharing == 1;
  if (!isShared)
    return loops.emitOpError("[5] has ")
           << sharing << " of " << threads
           << " threads or warps that share a point, which a "
           << stringifyLoopKind(kind) << " cannot have";
  bool keepsAll = kept == 0 || (kind == LoopKind::Row &&
                                kept == static_cast<int64_t>(llvm::divideCeil(
                                            numShared(loops), sharing)));
  if (vectors < 1 || (vectors > 1 && kind != LoopKind::Map) || part < 0 ||
      (part != 0 && kind != LoopKind::Column) || !keepsAll)
    return loops.emitOpError("[6] has ")
           << vectors << " vectors, parts of " << part << " and keeps " << kept
           << ", which a " << stringifyLoopKind(kind)
           << " of such sizes cannot have";
  bool isTiled = tiled != -1 || !inside.empty();
  bool areItems = llvm::all_of(inside, [&](int v) {
    return v != tiled && llvm::is_contained(items, v) &&
           llvm::count(inside, v) == 1;
  });
  if (isTiled && (kind != LoopKind::Map || vector < 0 || lanes != 1 ||
                  vectors != 1 || !llvm::is_contained(items, tiled) ||
                  !areItems || tileSide * numInside(loops) % threads != 0))
    return loops.emitOpError("[7] has tiles of variable ")
           << tiled << " in blocks of " << threads << " threads with " << lanes
           << " lanes and " << vectors
           << " vectors: it is one of a map's items, as those inside of it "
              "are, and a thread has whole values of a tile";
  if (int64_t bytes = countSharedBytes(loops); bytes > mostSharedBytes)
    return loops.emitOpError("[8] needs ")
           << bytes << " bytes of shared memory; a block has "
           << mostSharedBytes;
  if (numBlocks(loops) > mostBlocks)
    return loops.emitOpError("[4] has ")
           << numBlocks(loops) << " blocks; a launch has at most "
           << mostBlocks;
  return success();
}
