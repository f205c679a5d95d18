// How the loops of a kernel run.

#include "compiler/target/cpu/Schedule.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::codegen;
using namespace polyrank::cpu;

/// Work per item and per grain, in elements: some microseconds.
static constexpr int64_t itemElements = 4096;

int64_t Schedule::numBlocks(const Loops &loops) const {
  if (block == 0)
    return 1;
  return llvm::divideCeil(loops.variables[vectorVariable].size, block);
}

int64_t Schedule::numTiles(const Loops &loops) const {
  if (tileVariable < 0)
    return 1;
  return llvm::divideCeil(loops.variables[tileVariable].size, tile);
}

/// Every linear expression of the loops.
static void forEachExpression(Loops &loops,
                              function_ref<void(Affine &)> visit) {
  for (Node &node : loops.nodes)
    if (!node.expression.coefficients.empty())
      visit(node.expression);
  for (Store &store : loops.stores)
    visit(store.offset);
  if (loops.scatter)
    visit(loops.scatter->offset);
}

/// Variables a (outer) and b are one where every expression counts a in steps
/// of b's size.
static bool areOne(Loops &loops, size_t a, size_t b) {
  if (loops.variables[a].isReduced != loops.variables[b].isReduced)
    return false;
  bool result = true;
  forEachExpression(loops, [&](Affine &affine) {
    result &= affine.coefficients[a] ==
              affine.coefficients[b] * loops.variables[b].size;
  });
  return result;
}

static void mergeVariables(Loops &loops) {
  for (size_t a = 0; a < loops.variables.size(); ++a)
    for (size_t b = 0; b < loops.variables.size(); ++b) {
      // The order of a scatter's updates is that of its variables.
      if (a == b || (loops.scatter && a > b) || !areOne(loops, a, b))
        continue;
      loops.variables[b].size *= loops.variables[a].size;
      loops.variables.erase(loops.variables.begin() + a);
      forEachExpression(loops, [&](Affine &affine) {
        affine.coefficients.erase(affine.coefficients.begin() + a);
      });
      return mergeVariables(loops);
    }
}

/// Elements that an expression touches.
static int64_t countPoints(const Loops &loops, const Affine &affine) {
  int64_t count = 1;
  for (auto [c, variable] :
       llvm::zip_equal(affine.coefficients, loops.variables))
    count *= c != 0 ? variable.size : 1;
  return count;
}

/// Whether a reduction's result depends on its order.
static bool roundsSums(const Loops &loops) {
  return llvm::any_of(loops.nodes, [](const Node &node) {
    return node.kind == Node::Reduce && isa<FloatType>(node.type) &&
           node.reduction == sharding::ReductionKind::Sum;
  });
}

/// Elements moved in whole vectors less those moved lane by lane, if `v` runs
/// along vectors.
static double scoreVector(const Loops &loops, size_t v,
                          ArrayRef<uint64_t> dependences) {
  int64_t size = loops.variables[v].size;
  double score = 0;
  // Short vectors are many: each computes addresses and conditions. Those of
  // sums are left alone: which variable they run along must not depend on what
  // is fused with them, or it would change bits.
  constexpr double overhead = 4;
  if (!roundsSums(loops))
    score -= overhead * static_cast<double>(loops.product(/*reduced=*/false)) *
             static_cast<double>(loops.product(/*reduced=*/true)) /
             static_cast<double>(std::min<int64_t>(size, 16));
  auto add = [&](const Affine &affine, double weight, bool isIndexed) {
    int64_t c = affine.coefficients[v];
    double points = static_cast<double>(countPoints(loops, affine)) * weight;
    if (isIndexed || (c != 0 && c != 1))
      score -= points;
    else if (c == 1)
      score += points * static_cast<double>(std::min<int64_t>(size, 16)) / 16;
  };
  for (const Node &node : loops.nodes) {
    if (node.kind != Node::Load)
      continue;
    bool isIndexed = llvm::any_of(node.operands, [&](int operand) {
      return dependences[operand] >> v & 1;
    });
    add(node.expression, 1, isIndexed);
  }
  // A scattered store costs more than a gathered load.
  for (const Store &store : loops.stores)
    add(store.offset, 2, false);
  if (loops.scatter)
    add(loops.scatter->offset, 2, false);
  return score;
}

static void chooseVector(const Loops &loops, Schedule &schedule) {
  std::vector<uint64_t> dependences = loops.dependences();
  double best = -std::numeric_limits<double>::infinity();
  for (size_t v = 0; v < loops.variables.size(); ++v) {
    if (loops.scatter && (loops.variables[v].isReduced ||
                          loops.scatter->offset.coefficients[v] != 1 ||
                          dependences[loops.scatter->indices] >> v & 1))
      continue;
    double score = scoreVector(loops, v, dependences);
    if (score > best) {
      best = score;
      schedule.vectorVariable = v;
    }
  }
}

/// A variable along which the largest load that is strided is contiguous.
static void chooseTile(const Loops &loops, Schedule &schedule) {
  int64_t largest = 0;
  for (const Node &node : loops.nodes) {
    if (node.kind != Node::Load || !node.operands.empty())
      continue;
    ArrayRef<int64_t> c = node.expression.coefficients;
    if (c[schedule.vectorVariable] == 0 || c[schedule.vectorVariable] == 1)
      continue;
    for (auto [v, variable] : llvm::enumerate(loops.variables))
      if (c[v] == 1 && variable.size >= 4 &&
          countPoints(loops, node.expression) > largest) {
        largest = countPoints(loops, node.expression);
        schedule.tileVariable = v;
      }
  }
}

/// Wide vectors hide the latency of a reduction's chain of additions.
static int64_t chooseLanes(const Loops &loops, int64_t size) {
  if (size >= 512 && loops.nodes.size() <= 48)
    return 64;
  if (size >= 128 && loops.nodes.size() <= 96)
    return 32;
  return 16;
}

std::vector<uint64_t> cpu::getComputingPasses(const Loops &loops,
                                              ArrayRef<int> kept) {
  std::vector<int> passes = loops.passes();
  std::vector<uint64_t> computed(loops.nodes.size());
  auto bit = [](int pass) { return uint64_t(1) << pass; };
  for (const Store &store : loops.stores)
    if (loops.isFull(store))
      computed[store.node] |= bit(loops.numPasses() - 1);
  // Users come after their operands.
  for (int i = static_cast<int>(loops.nodes.size()) - 1; i >= 0; --i) {
    const Node &node = loops.nodes[i];
    uint64_t set = computed[i];
    if (node.kind == Node::Reduce)
      set = bit(passes[i] - 1);
    else if (llvm::is_contained(kept, i))
      set &= -set;
    for (int operand : node.operands)
      computed[operand] |= set;
    if (node.predicate >= 0)
      computed[node.predicate] |= set;
  }
  return computed;
}

/// Functions that take longer than to write their result and read it again.
static bool isExpensive(const Node &node) {
  if (node.kind != Node::Apply)
    return false;
  switch (node.function) {
  case Function::Exp:
  case Function::Log:
  case Function::Tanh:
  case Function::Erf:
  case Function::Sigmoid:
  case Function::Sin:
  case Function::Cos:
  case Function::Atan:
  case Function::Asin:
  case Function::Acos:
  case Function::Asinh:
  case Function::Acosh:
  case Function::Atanh:
  case Function::Pow:
  case Function::Philox:
    return true;
  default:
    return false;
  }
}

/// From results towards operands, so that of a chain only the end is kept.
static void chooseKept(const Loops &loops, Schedule &schedule) {
  constexpr int64_t maxBytes = 1 << 16;
  const int vector = schedule.vectorVariable;
  if (schedule.kind != Schedule::Row || !schedule.reductionVariables.empty())
    return;
  std::vector<uint64_t> dependences = loops.dependences();
  auto isOfRow = [&](int node) { return dependences[node] >> vector & 1; };
  std::vector<bool> isCostly(loops.nodes.size());
  for (auto [i, node] : llvm::enumerate(loops.nodes)) {
    isCostly[i] = isExpensive(node);
    if (node.kind != Node::Reduce)
      for (int operand : node.operands)
        isCostly[i] = isCostly[i] || (isCostly[operand] && isOfRow(operand));
  }
  int64_t bytes = 0;
  for (int i = static_cast<int>(loops.nodes.size()) - 1; i >= 0; --i) {
    const Node &node = loops.nodes[i];
    if (node.kind != Node::Apply || !isCostly[i] || !isOfRow(i) ||
        !isa<FloatType>(node.type))
      continue;
    uint64_t set = getComputingPasses(loops, schedule.kept)[i];
    int64_t size = llvm::alignTo(loops.variables[vector].size, schedule.lanes) *
                   llvm::divideCeil(node.type.getIntOrFloatBitWidth(), 8);
    if (llvm::popcount(set) < 2 || bytes + size > maxBytes)
      continue;
    bytes += size;
    schedule.kept.push_back(i);
  }
}

/// Parts of a long sum are about as long as there are parts. What counts is how
/// many values there are and not which loops run over them, so that fusion
/// changes no bit. Rows need no parts: their lanes are some.
static void choosePart(const Loops &loops, Schedule &schedule) {
  constexpr int64_t longest = 512;
  int64_t count = loops.product(/*reduced=*/true);
  if (schedule.kind == Schedule::Column && roundsSums(loops) && count > longest)
    schedule.part = int64_t(1) << (llvm::Log2_64(count) / 2);
}

Schedule cpu::scheduleLoops(Loops &loops) {
  mergeVariables(loops);
  Schedule schedule;
  chooseVector(loops, schedule);
  int vector = schedule.vectorVariable;
  bool hasReduced = llvm::any_of(loops.variables,
                                 [](const Variable &v) { return v.isReduced; });
  schedule.kind = loops.scatter ? Schedule::Scatter
                  : !hasReduced ? Schedule::Map
                  : vector >= 0 && loops.variables[vector].isReduced
                      ? Schedule::Row
                      : Schedule::Column;
  if (schedule.kind == Schedule::Map && vector >= 0)
    chooseTile(loops, schedule);

  // Outer loops in the order of the first result in memory.
  Affine order = loops.scatter          ? loops.scatter->offset
                 : loops.stores.empty() ? Affine(loops.variables.size())
                                        : loops.stores[0].offset;
  SmallVector<int> outer;
  for (size_t v = 0; v < loops.variables.size(); ++v)
    if (static_cast<int>(v) != vector)
      (loops.variables[v].isReduced ? schedule.reductionVariables : outer)
          .push_back(v);
  llvm::sort(outer, [&](int a, int b) {
    return std::make_tuple(-order.coefficients[a], a) <
           std::make_tuple(-order.coefficients[b], b);
  });
  schedule.itemVariables = outer;

  int64_t vectorSize = vector >= 0 ? loops.variables[vector].size : 1;
  int64_t reduced = loops.product(/*reduced=*/true);
  int64_t perElement = 1; // work for one value of the vector variable
  switch (schedule.kind) {
  case Schedule::Map:
    perElement = schedule.tileVariable >= 0 ? schedule.tile : 1;
    break;
  case Schedule::Row:
    schedule.lanes = chooseLanes(loops, vectorSize);
    chooseKept(loops, schedule);
    perElement = reduced / vectorSize;
    break;
  case Schedule::Column:
    schedule.lanes = vectorSize >= 256 ? chooseLanes(loops, 512)
                                       : chooseLanes(loops, vectorSize / 4);
    choosePart(loops, schedule);
    perElement = reduced;
    break;
  case Schedule::Scatter:
    break;
  }
  if ((schedule.kind == Schedule::Map || schedule.kind == Schedule::Column) &&
      vector >= 0) {
    int64_t block = llvm::alignTo(llvm::divideCeil(itemElements, perElement),
                                  schedule.lanes);
    if (block < vectorSize)
      schedule.block = block;
  }
  int64_t perItem = (schedule.block ? schedule.block : vectorSize) * perElement;
  if (schedule.kind == Schedule::Scatter) {
    // Each item looks at all indices, so there are not many.
    schedule.scatterRows = llvm::divideCeil(loops.scatter->limit, 32);
    schedule.range =
        llvm::divideCeil(loops.scatter->limit, schedule.scatterRows);
    perItem *= schedule.scatterRows + reduced;
  }
  schedule.range *= schedule.numBlocks(loops) * schedule.numTiles(loops);
  for (int v : schedule.itemVariables)
    if (v != schedule.tileVariable)
      schedule.range *= loops.variables[v].size;
  schedule.grain = std::min<int64_t>(
      schedule.range,
      llvm::divideCeil(itemElements, std::max<int64_t>(1, perItem)));
  return schedule;
}

int64_t cpu::stridedAccesses(const Loops &loops, const Schedule &schedule) {
  if (schedule.vectorVariable < 0)
    return 0;
  std::vector<uint64_t> dependences = loops.dependences();
  int64_t count = 0;
  auto add = [&](const Affine &affine, bool isIndexed) {
    int64_t c = affine.coefficients[schedule.vectorVariable];
    if (isIndexed || (c != 0 && c != 1))
      count += countPoints(loops, affine);
  };
  for (const Node &node : loops.nodes)
    if (node.kind == Node::Load)
      add(node.expression, llvm::any_of(node.operands, [&](int operand) {
            return dependences[operand] >> schedule.vectorVariable & 1;
          }));
  for (const Store &store : loops.stores)
    add(store.offset, false);
  return count;
}
