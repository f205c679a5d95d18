// Counts what the threads of a GPU ask of memory.

#include "compiler/target/Accesses.h"
#include "compiler/target/cuda/KernelSchedule.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::kernel;
using namespace polyrank::cuda;
using target::Access;

/// What a warp's access moves at least for each place that it touches.
static constexpr int64_t sectorBytes = 32;

bool cuda::isAligned(const Affine &offset, int variable, int64_t lanes) {
  if (offset.constant % lanes != 0 || offset.coefficients[variable] != 1)
    return false;
  for (auto [v, c] : llvm::enumerate(offset.coefficients))
    if (static_cast<int>(v) != variable && c % lanes != 0)
      return false;
  return true;
}

static bool isUniform(Value condition, int variable, int64_t lanes,
                      const Dependences &dependences,
                      llvm::DenseMap<Value, bool> &known) {
  if (lanes == 1 || !dependences.dependsOn(condition, variable))
    return true;
  if (auto found = known.find(condition); found != known.end())
    return found->second;
  Operation *op = condition.getDefiningOp();
  bool result = false;
  if (auto range = dyn_cast<InRangeOp>(op))
    result = isAligned(range.getValue() + -range.getLower(), variable, lanes) &&
             (range.getUpper() - range.getLower()) % lanes == 0;
  else if (isa<arith::AndIOp, arith::OrIOp, arith::XOrIOp>(op))
    result = llvm::all_of(op->getOperands(), [&](Value operand) {
      return isUniform(operand, variable, lanes, dependences, known);
    });
  known[condition] = result;
  return result;
}

bool cuda::isUniform(Value condition, int variable, int64_t lanes,
                     const Dependences &dependences) {
  llvm::DenseMap<Value, bool> known;
  return ::isUniform(condition, variable, lanes, dependences, known);
}

/// The sectors for each element that a warp moves by an access.
static double sectorsOfElement(const Access &access, int variable,
                               int64_t lanes, const Dependences &dependences) {
  auto bytes = static_cast<double>(access.elementBytes());
  double ideal = bytes / sectorBytes;
  if (access.isIndexed)
    return 1;
  int64_t c = std::abs(access.offset->coefficients[variable]);
  if (c == 0)
    return ideal;
  bool isWhole = c == 1 && isAligned(*access.offset, variable, lanes);
  if (auto load = dyn_cast<LoadOp>(access.op)) {
    isWhole &= !load.getPredicate() ||
               isUniform(load.getPredicate(), variable, lanes, dependences);
    isWhole &= llvm::all_of(
        load.getStrides(), [&](int64_t stride) { return stride % lanes == 0; });
  }
  if (isWhole)
    return ideal;
  return std::min(1.0, static_cast<double>(c * lanes) * ideal);
}

double cuda::countSectors(LoopsOp loops, const KernelSchedule &schedule) {
  if (schedule.vector < 0)
    return 0;
  Dependences dependences(loops);
  double sectors = 0;
  for (const Access &access :
       target::accessesAlong(loops, schedule.vector, dependences)) {
    auto load = dyn_cast<LoadOp>(access.op);
    bool isTiled = load && schedule.isReadInTiles(load, dependences);
    sectors +=
        static_cast<double>(target::countPoints(loops, *access.offset)) *
        (isTiled ? static_cast<double>(access.elementBytes()) / sectorBytes
                 : sectorsOfElement(access, schedule.vector, schedule.lanes,
                                    dependences));
  }
  return sectors;
}

Requests cuda::countRequests(LoopsOp loops, const KernelSchedule &schedule) {
  Dependences dependences(loops);
  auto passes = target::getComputingPasses(loops, dependences, /*kept=*/{});
  uint64_t vector = schedule.vector < 0 ? 0 : uint64_t(1) << schedule.vector;
  uint64_t reduced = 0;
  for (auto [v, variable] : llvm::enumerate(loops.getVariables()))
    reduced |= uint64_t(variable.isReduced) << v;
  Requests requests;
  for (Operation &op : loops.getBlock()) {
    if (!isa<LoadOp, StoreOp, ScatterAddOp>(op))
      continue;
    int64_t bytes = Access{&op, nullptr, false, false}.elementBytes();
    uint64_t variables = 0;
    for (auto [v, c] : llvm::enumerate(getExpression(&op)->coefficients))
      variables |= uint64_t(c != 0) << v;
    auto load = dyn_cast<LoadOp>(op);
    if (load)
      variables = dependences.variables(load);
    int64_t points = 1;
    for (auto [v, variable] : llvm::enumerate(loops.getVariables()))
      points *= variables >> v & 1 ? variable.size : 1;
    // What does not depend on a reduced variable is read once for each item.
    bool isRead = load && variables & reduced && !schedule.kept;
    requests.bytes += points * bytes *
                      (isRead ? std::max(1, llvm::popcount(passes[load])) : 1);
    if (load)
      requests.loadedAtOnce +=
          bytes * (variables & vector ? schedule.lanes : 1) *
          (variables & reduced && schedule.kept ? schedule.kept
                                                : schedule.vectors);
  }
  return requests;
}
