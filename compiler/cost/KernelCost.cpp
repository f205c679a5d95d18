// Counts the FLOPs and bytes of a kernel.

#include "compiler/cost/KernelCost.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace polyrank;

graph::Cost polyrank::cost::getCost(kernel::LoopsOp loops) {
  graph::Cost cost;
  kernel::Dependences dependences(loops);
  auto points = [&](Value value) {
    int64_t count = 1;
    for (auto [v, variable] : llvm::enumerate(loops.getVariables()))
      count *= dependences.dependsOn(value, v) ? variable.size : 1;
    return count;
  };
  auto bytes = [](RankedTensorType type, int64_t count) {
    return count * static_cast<int64_t>(
                       llvm::divideCeil(type.getElementTypeBitWidth(), 8));
  };
  // From an argument that is accessed by index, at most as many elements are
  // read as there are lookups.
  SmallVector<int64_t> read(loops.getArguments().size());
  for (Operation &op : loops.getBlock()) {
    if (auto load = dyn_cast<kernel::LoadOp>(op))
      read[loops.getArgumentNumber(load.getSource())] += points(load);
    if (op.getNumResults() == 0 || !isa<FloatType>(op.getResult(0).getType()))
      continue;
    if (auto reduce = dyn_cast<kernel::ReduceOp>(op))
      cost.flops += points(reduce.getInput());
    else if (!isa<kernel::LoadOp, arith::ConstantOp, arith::SelectOp>(op))
      cost.flops += points(op.getResult(0));
  }
  for (auto [i, count] : llvm::enumerate(read)) {
    RankedTensorType type = loops.getArgumentType(i);
    cost.bytesRead += bytes(type, std::min(count, type.getNumElements()));
  }
  for (Type type : loops.getResultTypes()) {
    auto tensor = cast<RankedTensorType>(type);
    cost.bytesWritten += bytes(tensor, tensor.getNumElements());
  }
  if (kernel::ScatterAddOp scatter = loops.getScatter()) {
    int64_t updates = points(scatter.getUpdate());
    cost.flops += updates;
    // A scatter in place writes at most one element for each update.
    if (scatter.getInit())
      cost.bytesWritten =
          std::min(cost.bytesWritten, bytes(loops.getResultType(0), updates));
  }
  return cost;
}
