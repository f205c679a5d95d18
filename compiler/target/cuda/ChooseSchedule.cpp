// Chooses how the threads of a GPU share the loops of a kernel.
//
// Nothing that the order of a sum depends on (the vector variable's lanes, the
// threads that share a point, parts) is chosen by what is fused with the sum,
// so that fusion changes no bit.

#include "compiler/target/Accesses.h"
#include "compiler/target/cuda/KernelSchedule.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::kernel;
using namespace polyrank::cuda;
using target::Access;

/// What one access of a thread moves at most.
static constexpr int64_t vectorBytes = 16;
/// Threads that run at the same time on a GPU with 132 multiprocessors.
static constexpr int64_t wave = int64_t(132) * 2048;
static constexpr int64_t mapThreads = 256, warpRowThreads = 128;
/// The longest row that one warp sums.
static constexpr int64_t longestOfWarp = 512;
/// The most values of a row that a thread keeps, and the most with all that is
/// loaded for them.
static constexpr int64_t mostKept = 16, mostLoaded = 48;
/// A thread adds at most so many values one after another in a column.
static constexpr int64_t longestChain = 512;

/// The number of elements moved by adjacent threads from adjacent places minus
/// those moved from distant ones, if `v` is the vector variable.
static double scoreVector(LoopsOp loops, size_t v,
                          const Dependences &dependences) {
  auto share = static_cast<double>(std::min<int64_t>(
                   loops.getVariables()[v].size, warpThreads)) /
               warpThreads;
  double score = 0;
  for (const Access &access : target::accessesAlong(loops, v, dependences)) {
    int64_t c = access.offset->coefficients[v];
    // A write of part of a sector also reads it.
    double points =
        static_cast<double>(target::countPoints(loops, *access.offset)) *
        (access.isWritten ? 2 : 1);
    if (access.isIndexed || (c != 0 && c != 1))
      score -= points;
    else if (c == 1)
      score += points * share;
  }
  return score;
}

static int chooseVector(LoopsOp loops, const Dependences &dependences) {
  double best = -std::numeric_limits<double>::infinity();
  int vector = -1;
  ScatterAddOp scatter = loops.getScatter();
  for (auto [v, variable] : llvm::enumerate(loops.getVariables())) {
    if (scatter &&
        (variable.isReduced || scatter.getOffset().coefficients[v] != 1 ||
         dependences.dependsOn(scatter.getIndex(), v)))
      continue;
    double score = scoreVector(loops, v, dependences);
    if (score > best) {
      best = score;
      vector = static_cast<int>(v);
    }
  }
  return vector;
}

/// Chooses as tiled variable one along which the largest load that is not
/// contiguous otherwise is, if tiles are not half empty.
static int chooseTiled(LoopsOp loops, const KernelSchedule &schedule) {
  constexpr int64_t smallest = tileSide / 2;
  if (loops.getVariables()[schedule.vector].size < smallest)
    return -1;
  int64_t largest = 0;
  int tiled = -1;
  for (LoadOp load : loops.getBlock().getOps<LoadOp>()) {
    ArrayRef<int64_t> c = load.getOffset().coefficients;
    int64_t points = target::countPoints(loops, load.getOffset());
    if (c[schedule.vector] == 0 || c[schedule.vector] == 1 || points <= largest)
      continue;
    for (int v : schedule.items)
      if (c[v] == 1 && loops.getVariables()[v].size >= smallest) {
        largest = points;
        tiled = v;
      }
  }
  return tiled;
}

/// Chooses tiles for results that are contiguous over several short variables
/// together, as the windows of a convolution are over their places and their
/// channels: 32 values of the last of these along which a load is contiguous,
/// with all points of the variables inside of it.
static void chooseInside(LoopsOp loops, KernelSchedule &schedule) {
  constexpr int64_t mostPoints = 64, mostWarps = 16;
  std::vector<StoreOp> stores = loops.getStores();
  const Affine &to = stores.front().getOffset();
  for (StoreOp store : stores)
    if (store.getOffset() != to)
      return;
  // Items are in the order of the results.
  int64_t points = loops.getVariables()[schedule.vector].size;
  SmallVector<int> inside;
  for (int v : llvm::reverse(schedule.items)) {
    int64_t size = loops.getVariables()[v].size;
    if (to.coefficients[v] != points || to.coefficients[schedule.vector] != 1 ||
        points > mostPoints)
      return;
    bool isAlong =
        llvm::any_of(loops.getBlock().getOps<LoadOp>(), [&](LoadOp load) {
          ArrayRef<int64_t> from = load.getOffset().coefficients;
          return from[v] == 1 && from[schedule.vector] != 0;
        });
    if (isAlong && size >= tileSide / 2 && !inside.empty()) {
      schedule.tiled = v;
      schedule.inside = inside;
      int64_t warps = std::min(points, mostWarps);
      while (points % warps != 0)
        --warps;
      schedule.threads = warps * warpThreads;
      return;
    }
    inside.insert(inside.begin(), v);
    points *= size;
  }
}

static void chooseMap(LoopsOp loops, KernelSchedule &schedule,
                      const Dependences &dependences) {
  schedule.threads = mapThreads;
  if (schedule.vector < 0)
    return;
  int64_t widest = 2; // of bytes alone a thread would have 16 values
  for (const Access &access :
       target::accessesAlong(loops, schedule.vector, dependences))
    if (access.offset->coefficients[schedule.vector] != 0)
      widest = std::max(widest, access.elementBytes());
  double least = std::numeric_limits<double>::infinity();
  int64_t best = 1;
  for (int64_t lanes = vectorBytes / widest; lanes >= 1; lanes /= 2) {
    schedule.lanes = lanes;
    double sectors = countSectors(loops, schedule);
    if (sectors < 0.98 * least) {
      least = sectors;
      best = lanes;
    }
  }
  schedule.lanes = best;
  KernelSchedule inTiles = schedule;
  inTiles.lanes = 1;
  inTiles.tiled = chooseTiled(loops, schedule);
  if (inTiles.tiled < 0)
    chooseInside(loops, inTiles);
  if (inTiles.tiled >= 0 && countSectors(loops, inTiles) < 0.8 * least &&
      inTiles.countSharedBytes(loops) <= mostSharedBytes) {
    schedule = inTiles;
    return;
  }
  // A thread has several vectors where two waves of threads are left.
  int64_t all = schedule.numItems(loops) * schedule.numVectors(loops);
  auto values = static_cast<int64_t>(loops.countValues());
  while (schedule.vectors < 4 && all >= 4 * schedule.vectors * wave &&
         2 * schedule.vectors * best * values <= 256)
    schedule.vectors *= 2;
}

/// The number of bytes of what is summed, of which a vector has 16 where they
/// are four or more.
static int64_t reducedBytes(LoopsOp loops) {
  int64_t widest = 4;
  for (auto op : loops.getBlock().getOps<ReduceOp>())
    widest = std::max<int64_t>(
        widest, op.getInput().getType().getIntOrFloatBitWidth() / 8);
  return widest;
}

static void chooseRow(LoopsOp loops, KernelSchedule &schedule,
                      const Dependences &dependences) {
  int64_t size = loops.getVariables()[schedule.vector].size;
  schedule.lanes = vectorBytes / reducedBytes(loops);
  while (size % schedule.lanes != 0)
    schedule.lanes /= 2;
  int64_t count = schedule.numShared(loops);
  if (count * schedule.lanes <= longestOfWarp) {
    schedule.sharing =
        std::min<int64_t>(warpThreads, llvm::bit_ceil<uint64_t>(count));
    schedule.threads = warpRowThreads;
  } else {
    // The block whose threads have the same number of vectors, or nearly so.
    int64_t least = std::numeric_limits<int64_t>::max();
    for (int64_t threads = 128; threads <= 512; threads += warpThreads) {
      int64_t idle = llvm::alignTo(count, threads) - count;
      bool isKept =
          llvm::divideCeil(count, threads) * schedule.lanes <= mostKept;
      if (isKept && idle < least) {
        least = idle;
        schedule.threads = threads;
      }
    }
    if (schedule.threads == 0)
      schedule.threads = 512;
    schedule.sharing = schedule.threads;
  }
  int64_t loads =
      llvm::count_if(loops.getBlock().getOps<LoadOp>(), [&](LoadOp load) {
        return dependences.dependsOn(load, schedule.vector);
      });
  int64_t vectors = llvm::divideCeil(count, schedule.sharing);
  int64_t values = vectors * schedule.lanes;
  if (values <= mostKept && values * loads <= mostLoaded)
    schedule.kept = vectors;
}

static void chooseColumn(LoopsOp loops, KernelSchedule &schedule) {
  int64_t count = schedule.numShared(loops), blocks = schedule.numBlocks(loops);
  int64_t warps = count >= 1024 && blocks < 264  ? 32
                  : count >= 256 && blocks < 528 ? 16
                                                 : 8;
  schedule.sharing = std::min<int64_t>(warps, llvm::bit_ceil<uint64_t>(count));
  schedule.threads = schedule.sharing * warpThreads;
  if (llvm::divideCeil(count, schedule.sharing) > longestChain)
    schedule.part = longestChain;
}

static void chooseScatter(LoopsOp loops, KernelSchedule &schedule) {
  schedule.threads = mapThreads;
  if (schedule.vector < 0)
    return;
  int64_t bytes = loops.getResultType(0).getElementTypeBitWidth() / 8;
  schedule.lanes = vectorBytes / std::max<int64_t>(bytes, 4);
  while (loops.getVariables()[schedule.vector].size % schedule.lanes != 0)
    schedule.lanes /= 2;
}

KernelSchedule cuda::scheduleLoops(LoopsOp loops) {
  KernelSchedule schedule;
  ArrayRef<Variable> variables = loops.getVariables();
  Dependences dependences(loops);
  schedule.vector = chooseVector(loops, dependences);
  bool hasReduced =
      llvm::any_of(variables, [](const Variable &v) { return v.isReduced; });
  bool isRow = schedule.vector >= 0 && variables[schedule.vector].isReduced;
  schedule.kind = loops.getScatter() ? LoopKind::Scatter
                  : !hasReduced      ? LoopKind::Map
                  : isRow            ? LoopKind::Row
                                     : LoopKind::Column;
  // Points of adjacent threads are in the memory order of the first result.
  SmallVector<int64_t> order(variables.size());
  for (Operation &op : loops.getBlock())
    if (isa<StoreOp, ScatterAddOp>(op)) {
      order.assign(getExpression(&op)->coefficients);
      break;
    }
  for (int v = 0, n = static_cast<int>(variables.size()); v < n; ++v)
    if (v != schedule.vector)
      (variables[v].isReduced ? schedule.reductions : schedule.items)
          .push_back(v);
  llvm::sort(schedule.items, [&](int a, int b) {
    return std::make_tuple(-order[a], a) < std::make_tuple(-order[b], b);
  });
  switch (schedule.kind) {
  case LoopKind::Map:
    chooseMap(loops, schedule, dependences);
    break;
  case LoopKind::Row:
    chooseRow(loops, schedule, dependences);
    break;
  case LoopKind::Column:
    chooseColumn(loops, schedule);
    break;
  case LoopKind::Scatter:
    chooseScatter(loops, schedule);
    break;
  }
  return schedule;
}

/// The ways to cut a sum into equal parts: how many values a part may have,
/// few first. A part is a range of one of the summed dims with all dims after
/// it that are summed.
static SmallVector<int64_t> findParts(graph::ReduceOp sum) {
  ArrayRef<int64_t> shape =
      cast<RankedTensorType>(sum.getInput().getType()).getShape();
  SmallVector<int64_t> parts;
  int64_t inner = 1;
  for (int64_t d = shape.size() - 1; d >= 0;) {
    if (!llvm::is_contained(sum.getDims(), d)) {
      --d;
      continue;
    }
    // Adjacent dims that are summed are one.
    int64_t size = 1;
    for (; d >= 0 && llvm::is_contained(sum.getDims(), d); --d)
      size *= shape[d];
    for (int64_t length = 1; length < size; ++length)
      if (size % length == 0)
        parts.push_back(inner * length);
    inner *= size;
  }
  return parts;
}

int64_t cuda::chooseSumPart(graph::ReduceOp sum) {
  constexpr int64_t shortest = 512, longestOfBlock = 8192;
  /// Blocks that fill a GPU.
  constexpr int64_t fewBlocks = 264;
  auto type = cast<RankedTensorType>(sum.getInput().getType());
  int64_t results =
      cast<RankedTensorType>(sum.getResult().getType()).getNumElements();
  int64_t count = type.getNumElements() / results;
  bool isRow = llvm::is_contained(sum.getDims(), type.getRank() - 1);
  // What a block sums, and how many blocks there are without parts.
  int64_t least = isRow ? longestOfBlock : shortest;
  int64_t blocks = isRow ? results : llvm::divideCeil(results, warpThreads);
  int64_t most = isRow ? longestChain * 512 : longestChain * warpThreads;
  if (count <= least || (blocks >= fewBlocks && count <= most))
    return 0;
  int64_t wanted = std::clamp<int64_t>(llvm::divideCeil(fewBlocks, blocks), 2,
                                       isRow ? fewBlocks : 64);
  int64_t part = std::clamp<int64_t>(count / wanted, least, most);
  int64_t best = 0;
  for (int64_t each : findParts(sum))
    if (each <= part)
      best = std::max(best, each);
  // Parts that are far shorter come of sizes with few divisors: then the last
  // part is filled up.
  return 4 * best >= part ? best : part;
}
