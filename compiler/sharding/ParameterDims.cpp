// Finds how the program uses the dims of a parameter, for constraints on it.

#include "compiler/sharding/ParameterDims.h"

#include "dialects/graph/Parts.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;
using sharding::AxisRef;

DimUse sharding::followDim(Value start, int64_t startDim) {
  DimUse use;
  llvm::DenseSet<std::pair<Value, int64_t>> seen;
  struct Pending {
    Value value;
    int64_t dim;
    bool isPart; // of a merged dim
  };
  SmallVector<Pending> pending = {{start, startDim, false}};
  while (!pending.empty()) {
    auto [value, dim, isPart] = pending.pop_back_val();
    if (!seen.insert({value, dim}).second)
      continue;
    for (OpOperand &slot : value.getUses()) {
      auto op = dyn_cast<graph::GraphOp>(slot.getOwner());
      if (!op)
        continue;
      graph::ShardingRule rule = op.getShardingRule();
      const auto &factors = rule.operands[slot.getOperandNumber()][dim];
      // Heads of queries that share keys are two factors of one dim.
      auto attention = dyn_cast<graph::AttentionOp>(*op);
      bool isHead = attention && slot.getOperandNumber() < 3 && dim == 1;
      if (factors.size() != 1 && !(isHead && !factors.empty()))
        continue;
      int factor = factors[0];
      // A scan takes whole tensors where each iteration needs them; ops before
      // the scan may still be split.
      if (rule.factors[factor].kind == graph::FactorKind::Replicated &&
          !isa<graph::ScanOp>(op))
        use.isSliced = true;
      bool isBatch = isHead;
      if (attention && slot.getOperandNumber() < 3) {
        graph::AttentionSizes sizes = attention.getSizes();
        use.isWidth |= dim == 3 && sizes.heads > 1;
        use.isGroups |=
            isHead && slot.getOperandNumber() > 0 && sizes.groups < sizes.heads;
      }
      if (auto matmul = dyn_cast<graph::MatmulOp>(*op))
        isBatch = llvm::is_contained(slot.getOperandNumber() == 0
                                         ? matmul.getLhsBatch()
                                         : matmul.getRhsBatch(),
                                     dim);
      use.isHeads |= isBatch;
      use.isGroups |= isBatch && isPart;
      for (auto [r, result] : llvm::enumerate(rule.results))
        for (auto [d, list] : llvm::enumerate(result))
          if (!list.empty() && list[0] == factor)
            pending.push_back({op->getResult(r), static_cast<int64_t>(d),
                               isPart || list.size() > factors.size()});
    }
  }
  return use;
}

std::optional<SmallVector<AxisRef>> sharding::majorPart(ArrayRef<AxisRef> axes,
                                                        int64_t count) {
  SmallVector<AxisRef> part;
  for (AxisRef ref : axes) {
    if (count == 1)
      break;
    if (ref.size > count && ref.size % count == 0)
      ref.size = count;
    if (count % ref.size != 0)
      return std::nullopt;
    count /= ref.size;
    part.push_back(ref);
  }
  return part;
}

SmallVector<SmallVector<int64_t>>
sharding::dimsOfStored(ArrayRef<int64_t> stored, RankedTensorType type,
                       ArrayRef<int64_t> strides) {
  SmallVector<int64_t> storedStrides = graph::getStrides(stored);
  SmallVector<SmallVector<int64_t>> result(stored.size());
  for (auto [d, list] : llvm::enumerate(result)) {
    for (int64_t i = 0; i < type.getRank(); ++i) {
      // A dim of size 1 has no extent of its own: it goes with a dim of equal
      // stride.
      int64_t low = storedStrides[d], high = low * stored[d];
      if (strides[i] >= low &&
          (strides[i] < high || (d == 0 && strides[i] == high)))
        list.push_back(i);
    }
    llvm::stable_sort(
        list, [&](int64_t a, int64_t b) { return strides[a] > strides[b]; });
  }
  return result;
}
