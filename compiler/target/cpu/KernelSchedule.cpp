// Chooses how the loops of a kernel run.

#include "compiler/target/cpu/KernelSchedule.h"

#include "compiler/target/Accesses.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::kernel;
using namespace polyrank::cpu;
using namespace polyrank::target;

/// The work per item and per grain, in elements: some microseconds.
static constexpr int64_t itemElements = 4096;

int64_t KernelSchedule::numBlocks(LoopsOp loops) const {
  if (block == 0)
    return 1;
  return llvm::divideCeil(loops.getVariables()[vectorVariable].size, block);
}

int64_t KernelSchedule::numTiles(LoopsOp loops) const {
  if (tileVariable < 0)
    return 1;
  return llvm::divideCeil(loops.getVariables()[tileVariable].size, tile);
}

int64_t KernelSchedule::numItems(LoopsOp loops) const {
  int64_t count = numBlocks(loops) * numTiles(loops);
  if (ScatterAddOp scatter = loops.getScatter())
    count *= llvm::divideCeil(scatter.getLimit(), scatterRows);
  for (int v : itemVariables)
    if (v != tileVariable)
      count *= loops.getVariables()[v].size;
  return count;
}

/// The number of elements moved in whole vectors minus those moved lane by
/// lane, if `v` is the vector variable.
static double scoreVector(LoopsOp loops, size_t v,
                          const Dependences &dependences, bool roundsSums) {
  int64_t size = loops.getVariables()[v].size;
  double score = 0;
  // Short vectors have an overhead: each computes addresses and conditions.
  // This is ignored for sums: their vector variable must not depend on what is
  // fused with them, or fusion would change bits.
  constexpr double overhead = 4;
  if (!roundsSums)
    score -= overhead *
             static_cast<double>(loops.getNumPoints(/*ofReduced=*/false)) *
             static_cast<double>(loops.getNumPoints(/*ofReduced=*/true)) /
             static_cast<double>(std::min<int64_t>(size, 16));
  for (const Access &access : accessesAlong(loops, v, dependences)) {
    int64_t c = access.offset->coefficients[v];
    // A scattered store costs more than a gathered load.
    double points = static_cast<double>(countPoints(loops, *access.offset)) *
                    (access.isWritten ? 2 : 1);
    if (access.isIndexed || (c != 0 && c != 1))
      score -= points;
    else if (c == 1)
      score += points * static_cast<double>(std::min<int64_t>(size, 16)) / 16;
  }
  return score;
}

static void chooseVector(LoopsOp loops, const Dependences &dependences,
                         KernelSchedule &schedule) {
  double best = -std::numeric_limits<double>::infinity();
  ScatterAddOp scatter = loops.getScatter();
  bool rounds = roundsSums(loops);
  for (auto [v, variable] : llvm::enumerate(loops.getVariables())) {
    if (scatter &&
        (variable.isReduced || scatter.getOffset().coefficients[v] != 1 ||
         dependences.dependsOn(scatter.getIndex(), v)))
      continue;
    double score = scoreVector(loops, v, dependences, rounds);
    if (score > best) {
      best = score;
      schedule.vectorVariable = v;
    }
  }
}

/// Chooses as tile variable one along which the largest strided load is
/// contiguous.
static void chooseTile(LoopsOp loops, KernelSchedule &schedule) {
  int64_t largest = 0;
  for (LoadOp load : loops.getBlock().getOps<LoadOp>()) {
    if (!load.getIndices().empty())
      continue;
    ArrayRef<int64_t> c = load.getOffset().coefficients;
    if (c[schedule.vectorVariable] == 0 || c[schedule.vectorVariable] == 1)
      continue;
    for (auto [v, variable] : llvm::enumerate(loops.getVariables()))
      if (c[v] == 1 && variable.size >= 4 &&
          countPoints(loops, load.getOffset()) > largest) {
        largest = countPoints(loops, load.getOffset());
        schedule.tileVariable = v;
      }
  }
}

/// Wide vectors hide the latency of a reduction's chain of additions.
static int64_t chooseLanes(LoopsOp loops, int64_t size) {
  size_t values = loops.countValues();
  if (size >= 512 && values <= 48)
    return 64;
  if (size >= 128 && values <= 96)
    return 32;
  return 16;
}

/// Returns true for functions that take longer than writing their result and
/// reading it again.
static bool isExpensive(Operation *op) {
  return isa<math::ExpOp, math::LogOp, math::TanhOp, math::ErfOp, math::SinOp,
             math::CosOp, math::AtanOp, math::AsinOp, math::AcosOp,
             math::AsinhOp, math::AcoshOp, math::AtanhOp, math::PowFOp,
             math::IPowIOp, PhiloxOp>(op);
}

/// Goes from results to operands, so that only the end of a chain is kept.
static void chooseKept(LoopsOp loops, const Dependences &dependences,
                       KernelSchedule &schedule) {
  constexpr int64_t maxBytes = 1 << 16;
  if (schedule.kind != KernelSchedule::Kind::Row ||
      !schedule.reductionVariables.empty())
    return;
  auto isOfRow = [&](Value value) {
    return dependences.dependsOn(value, schedule.vectorVariable);
  };
  llvm::DenseSet<Operation *> costly;
  for (Operation &op : loops.getBlock()) {
    bool isCostly = isExpensive(&op);
    if (!isa<ReduceOp>(op))
      for (Value operand : op.getOperands())
        isCostly = isCostly || (costly.contains(operand.getDefiningOp()) &&
                                isOfRow(operand));
    if (isCostly)
      costly.insert(&op);
  }
  int64_t bytes = 0;
  int64_t length = llvm::alignTo(
      loops.getVariables()[schedule.vectorVariable].size, schedule.lanes);
  for (Operation &op : llvm::reverse(loops.getBlock())) {
    if (!costly.contains(&op) || op.getNumResults() == 0 ||
        isa<LoadOp, ReduceOp>(op))
      continue;
    Value value = op.getResult(0);
    if (!isOfRow(value) || !isa<FloatType>(value.getType()))
      continue;
    uint64_t set = getComputingPasses(loops, dependences, schedule.kept)[value];
    int64_t size = length * static_cast<int64_t>(llvm::divideCeil(
                                value.getType().getIntOrFloatBitWidth(), 8));
    if (llvm::popcount(set) < 2 || bytes + size > maxBytes)
      continue;
    bytes += size;
    schedule.kept.push_back(value);
  }
}

/// The parts of a long sum are about as long as there are parts. The choice
/// depends on the number of values and not on which loops run over them, so
/// that fusion changes no bit. Rows need no parts: their lanes are partial
/// sums.
static void choosePart(LoopsOp loops, KernelSchedule &schedule) {
  constexpr int64_t longest = 512;
  int64_t count = loops.getNumPoints(/*ofReduced=*/true);
  if (schedule.kind == KernelSchedule::Kind::Column && roundsSums(loops) &&
      count > longest)
    schedule.part = int64_t(1) << (llvm::Log2_64(count) / 2);
}

int64_t cpu::chooseSumPart(graph::ReduceOp sum) {
  constexpr int64_t longest = 1 << 16, smallestPart = 1 << 9,
                    largestPart = 1 << 13, mostResults = 16;
  auto type = cast<RankedTensorType>(sum.getInput().getType());
  int64_t results =
      cast<RankedTensorType>(sum.getResult().getType()).getNumElements();
  int64_t count = type.getNumElements() / results;
  int64_t firstReduced = type.getRank() - sum.getDims().size();
  bool areLast = llvm::all_of(sum.getDims(),
                              [&](int64_t dim) { return dim >= firstReduced; });
  if (!areLast || count < longest || results > mostResults)
    return 0;
  for (int64_t part = largestPart; part >= smallestPart; --part)
    if (count % part == 0)
      return part;
  return 0;
}

KernelSchedule cpu::scheduleLoops(LoopsOp loops) {
  KernelSchedule schedule;
  ArrayRef<Variable> variables = loops.getVariables();
  Dependences dependences(loops);
  ScatterAddOp scatter = loops.getScatter();
  chooseVector(loops, dependences, schedule);
  int vector = schedule.vectorVariable;
  bool hasReduced =
      llvm::any_of(variables, [](const Variable &v) { return v.isReduced; });
  schedule.kind = scatter       ? KernelSchedule::Kind::Scatter
                  : !hasReduced ? KernelSchedule::Kind::Map
                  : vector >= 0 && variables[vector].isReduced
                      ? KernelSchedule::Kind::Row
                      : KernelSchedule::Kind::Column;
  if (schedule.kind == KernelSchedule::Kind::Map && vector >= 0)
    chooseTile(loops, schedule);

  // Outer loops are in the memory order of the first result.
  SmallVector<int64_t> order(variables.size());
  for (Operation &op : loops.getBlock())
    if (isa<StoreOp, ScatterAddOp>(op)) {
      order.assign(getExpression(&op)->coefficients);
      break;
    }
  for (int v = 0, n = static_cast<int>(variables.size()); v < n; ++v)
    if (v != vector)
      (variables[v].isReduced ? schedule.reductionVariables
                              : schedule.itemVariables)
          .push_back(v);
  llvm::sort(schedule.itemVariables, [&](int a, int b) {
    return std::make_tuple(-order[a], a) < std::make_tuple(-order[b], b);
  });

  int64_t vectorSize = vector >= 0 ? variables[vector].size : 1;
  int64_t reduced = loops.getNumPoints(/*ofReduced=*/true);
  int64_t perElement = 1; // work for one value of the vector variable
  switch (schedule.kind) {
  case KernelSchedule::Kind::Map:
    perElement = schedule.tileVariable >= 0 ? schedule.tile : 1;
    break;
  case KernelSchedule::Kind::Row:
    schedule.lanes = chooseLanes(loops, vectorSize);
    chooseKept(loops, dependences, schedule);
    perElement = reduced / vectorSize;
    break;
  case KernelSchedule::Kind::Column:
    schedule.lanes = vectorSize >= 256 ? chooseLanes(loops, 512)
                                       : chooseLanes(loops, vectorSize / 4);
    choosePart(loops, schedule);
    perElement = reduced;
    break;
  case KernelSchedule::Kind::Scatter:
    break;
  }
  if ((schedule.kind == KernelSchedule::Kind::Map ||
       schedule.kind == KernelSchedule::Kind::Column) &&
      vector >= 0) {
    int64_t block = llvm::alignTo(llvm::divideCeil(itemElements, perElement),
                                  schedule.lanes);
    if (block < vectorSize)
      schedule.block = block;
  }
  int64_t perItem = (schedule.block ? schedule.block : vectorSize) * perElement;
  if (schedule.kind == KernelSchedule::Kind::Scatter) {
    // Each item reads all indices, so there are few items.
    schedule.scatterRows = llvm::divideCeil(scatter.getLimit(), 32);
    perItem *= schedule.scatterRows + reduced;
  }
  schedule.grain = std::min<int64_t>(
      schedule.numItems(loops),
      llvm::divideCeil(itemElements, std::max<int64_t>(1, perItem)));
  return schedule;
}

int64_t cpu::stridedAccesses(LoopsOp loops, const KernelSchedule &schedule) {
  int vector = schedule.vectorVariable;
  if (vector < 0)
    return 0;
  int64_t count = 0;
  for (const Access &access :
       accessesAlong(loops, vector, Dependences(loops))) {
    int64_t c = access.offset->coefficients[vector];
    if (access.isIndexed || (c != 0 && c != 1))
      count += countPoints(loops, *access.offset);
  }
  return count;
}

ScheduleAttr KernelSchedule::write(LoopsOp loops) const {
  SmallVector<int64_t> items(itemVariables.begin(), itemVariables.end());
  SmallVector<int64_t> reductions(reductionVariables.begin(),
                                  reductionVariables.end());
  SmallVector<int64_t> keptOps;
  for (auto [i, op] : llvm::enumerate(loops.getBlock()))
    if (op.getNumResults() && llvm::is_contained(kept, op.getResult(0)))
      keptOps.push_back(i);
  return ScheduleAttr::get(loops.getContext(), kind, items, vectorVariable,
                           lanes, block, tileVariable,
                           tileVariable < 0 ? 0 : tile, reductions, part,
                           scatterRows, keptOps, grain);
}

FailureOr<KernelSchedule> KernelSchedule::read(LoopsOp loops) {
  auto written = dyn_cast_or_null<ScheduleAttr>(loops.getScheduleAttr());
  if (!written)
    return loops.emitOpError("has no schedule for a cpu: run lower-kernels");
  KernelSchedule schedule;
  schedule.kind = written.getKind();
  schedule.itemVariables.assign(written.getItems().begin(),
                                written.getItems().end());
  schedule.vectorVariable = written.getVector();
  schedule.lanes = written.getLanes();
  schedule.block = written.getBlock();
  schedule.tileVariable = written.getTileVariable();
  schedule.tile = written.getTile();
  schedule.reductionVariables.assign(written.getReductions().begin(),
                                     written.getReductions().end());
  schedule.part = written.getPart();
  schedule.scatterRows = written.getScatterRows();
  schedule.grain = written.getGrain();
  for (auto [i, op] : llvm::enumerate(loops.getBlock()))
    if (llvm::is_contained(written.getKept(), static_cast<int64_t>(i))) {
      if (op.getNumResults() == 0 || isa<ReduceOp>(op))
        return loops.emitOpError("[3] keeps op ")
               << i << ", which is no value of a row";
      schedule.kept.push_back(op.getResult(0));
    }
  if (failed(schedule.verify(loops)))
    return failure();
  return schedule;
}

LogicalResult KernelSchedule::verify(LoopsOp loops) const {
  ArrayRef<Variable> variables = loops.getVariables();
  SmallVector<int> uses(variables.size());
  auto use = [&](int variable) {
    bool exists = variable >= 0 && variable < static_cast<int>(uses.size());
    if (exists)
      ++uses[variable];
    return exists;
  };
  bool isRight = vectorVariable < 0 || use(vectorVariable);
  for (int v : itemVariables)
    isRight = isRight && use(v) && !variables[v].isReduced;
  for (int v : reductionVariables)
    isRight = isRight && use(v) && variables[v].isReduced;
  if (!isRight || llvm::any_of(uses, [](int count) { return count != 1; }))
    return loops.emitOpError("[1] has a schedule that does not run each "
                             "variable once, in its place");
  bool isRow = vectorVariable >= 0 && variables[vectorVariable].isReduced;
  bool hasReduced =
      llvm::any_of(variables, [](const Variable &v) { return v.isReduced; });
  Kind expected = loops.getScatter() ? Kind::Scatter
                  : !hasReduced      ? Kind::Map
                  : isRow            ? Kind::Row
                                     : Kind::Column;
  if (kind != expected)
    return loops.emitOpError("[2] is scheduled as a ")
           << stringifyLoopKind(kind) << "; it is a "
           << stringifyLoopKind(expected);
  if (!kept.empty() && (kind != Kind::Row || !reductionVariables.empty()))
    return loops.emitOpError("[3] keeps values, but is not one row per item");
  bool isTiled = tileVariable >= 0;
  if (lanes < 1 || !llvm::isPowerOf2_64(lanes) || block < 0 ||
      block % lanes != 0 || part < 0 || (isTiled && tile < 1) || grain < 1 ||
      (kind == Kind::Scatter && scatterRows < 1))
    return loops.emitOpError(
        "[4] has a schedule of sizes that do not fit: "
        "lanes are a power of two that divides a block, and "
        "a grain is at least 1");
  if (isTiled && (kind != Kind::Map || vectorVariable < 0 ||
                  !llvm::is_contained(itemVariables, tileVariable)))
    return loops.emitOpError("[5] has tiles of variable ")
           << tileVariable << ", which is none of a map's items";
  return success();
}
