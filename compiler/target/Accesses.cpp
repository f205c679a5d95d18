// What loops read and write along one of their variables.

#include "compiler/target/Accesses.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::kernel;
using namespace polyrank::target;

int64_t Access::elementBytes() const {
  Type type =
      TypeSwitch<Operation *, Type>(op)
          .Case([](LoadOp load) { return load.getType(); })
          .Case([](StoreOp store) { return store.getValue().getType(); })
          .Case([](ScatterAddOp scatter) {
            return scatter.getUpdate().getType();
          });
  return llvm::divideCeil(type.getIntOrFloatBitWidth(), 8);
}

SmallVector<Access> target::accessesAlong(LoopsOp loops, size_t variable,
                                          const Dependences &dependences) {
  SmallVector<Access> accesses;
  for (Operation &op : loops.getBlock()) {
    if (auto load = dyn_cast<LoadOp>(op))
      accesses.push_back({&op, &load.getOffset(),
                          llvm::any_of(load.getIndices(),
                                       [&](Value index) {
                                         return dependences.dependsOn(index,
                                                                      variable);
                                       }),
                          /*isWritten=*/false});
    else if (isa<StoreOp, ScatterAddOp>(op))
      accesses.push_back({&op, getExpression(&op), /*isIndexed=*/false,
                          /*isWritten=*/true});
  }
  return accesses;
}

int64_t target::countPoints(LoopsOp loops, const Affine &affine) {
  int64_t count = 1;
  for (auto [c, variable] :
       llvm::zip_equal(affine.coefficients, loops.getVariables()))
    count *= c != 0 ? variable.size : 1;
  return count;
}

bool target::roundsSums(LoopsOp loops) {
  return llvm::any_of(loops.getBlock().getOps<ReduceOp>(), [](ReduceOp op) {
    return isa<FloatType>(op.getType()) &&
           op.getKind() == sharding::ReductionKind::Sum;
  });
}

llvm::DenseMap<Value, uint64_t>
target::getComputingPasses(LoopsOp loops, const Dependences &dependences,
                           ArrayRef<Value> kept) {
  llvm::DenseMap<Value, uint64_t> computed;
  auto bit = [](int pass) { return uint64_t(1) << pass; };
  // Users come after their operands.
  for (Operation &op : llvm::reverse(loops.getBlock())) {
    uint64_t set = 0;
    if (auto store = dyn_cast<StoreOp>(op)) {
      if (loops.isFull(store))
        set = bit(dependences.numPasses() - 1);
    } else if (isa<ReduceOp>(op)) {
      set = bit(dependences.passes(op.getResult(0)) - 1);
    } else if (op.getNumResults()) {
      Value value = op.getResult(0);
      set = computed[value];
      if (llvm::is_contained(kept, value))
        set &= -set;
    }
    for (Value operand : op.getOperands())
      computed[operand] |= set;
  }
  return computed;
}
