// What the values of loops depend on.

#include "dialects/kernel/Kernel.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::kernel;

Dependences::Dependences(LoopsOp loops) {
  uint64_t reduced = 0;
  for (auto [v, variable] : llvm::enumerate(loops.getVariables()))
    if (variable.isReduced)
      reduced |= uint64_t(1) << v;
  // Operands come before their users.
  for (Operation &op : loops.getBlock()) {
    Entry entry;
    if (const Affine *expression = getExpression(&op))
      for (auto [v, c] : llvm::enumerate(expression->coefficients))
        if (c != 0)
          entry.variables |= uint64_t(1) << v;
    for (Value operand : op.getOperands()) {
      Entry other = of(operand);
      entry.variables |= other.variables;
      entry.passes = std::max(entry.passes, other.passes);
    }
    if (isa<ReduceOp>(op)) {
      entry.variables &= ~reduced;
      count = std::max(count, ++entry.passes);
    }
    if (auto store = dyn_cast<StoreOp>(op); store && loops.isFull(store))
      count = std::max(count, entry.passes + 1);
    if (op.getNumResults())
      entries[op.getResult(0)] = entry;
  }
}

bool kernel::mayAlias(LoopsOp loops, unsigned result, unsigned argument,
                      ThreadWork work) {
  ScatterAddOp scatter = loops.getScatter();
  Value tensor = loops.getArguments()[argument];
  bool isInit = scatter && scatter.getInit() == tensor;
  RankedTensorType from = loops.getArgumentType(argument),
                   to = loops.getResultType(result);
  if ((scatter && !isInit) || from.getElementType() != to.getElementType() ||
      from.getNumElements() != to.getNumElements())
    return false;
  StoreOp store;
  for (StoreOp candidate : loops.getStores())
    if (candidate.getNumber() == result)
      store = candidate;
  // One thread writes the result of a row, and others may still read the row.
  bool isWrittenByOther = store && loops.hasReductions() &&
                          !loops.isFull(store) && work == ThreadWork::PartOfRow;
  return llvm::all_of(loops.getBlock().getOps<LoadOp>(), [&](LoadOp load) {
    return load.getSource() != tensor ||
           (!isInit && !isWrittenByOther && load.getIndices().empty() &&
            !load.getPredicate() && load.getOffset() == store.getOffset());
  });
}
