// The costs of moving values between layouts.

#include "compiler/sharding/ReshardCosts.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;

int64_t ReshardCosts::getBytes(RankedTensorType type, LayoutAttr from,
                               LayoutAttr to) {
  if (from == to)
    return 0;
  auto [it, isNew] = bytes.try_emplace({type, from, to}, -1);
  if (isNew) {
    const cost::ReshardPlanner::Plan *plan =
        planner.plan(sharding::withLayout(type, from), to);
    int64_t found = plan ? plan->bytes : -1;
    it = bytes.find({type, from, to});
    it->second = found;
  }
  return it->second;
}

ReshardCosts::Making ReshardCosts::make(RankedTensorType type, LayoutAttr from,
                                        ArrayRef<LayoutAttr> wanted) {
  // Makes layouts one after another, each from the cheapest one made so far.
  // Some order gives a cheapest arborescence.
  auto attach = [&](ArrayRef<int> sequence) {
    Making making;
    for (int item : sequence) {
      int64_t least = getBytes(type, from, wanted[item]);
      int parent = -1;
      for (auto [made, unused] : making.steps)
        if (int64_t cost = getBytes(type, wanted[made], wanted[item]);
            cost >= 0 && (least < 0 || cost < least)) {
          least = cost;
          parent = made;
        }
      if (least < 0) {
        making.bytes = -1;
        return making;
      }
      making.bytes += least;
      making.steps.push_back({item, parent});
    }
    return making;
  };
  SmallVector<int> sequence = llvm::to_vector(llvm::seq<int>(0, wanted.size()));
  constexpr size_t allOrders = 4;
  if (wanted.size() > allOrders) {
    // Greedy: the layout that adds the fewest bytes comes next.
    SmallVector<int> greedy;
    while (!sequence.empty()) {
      auto addedBy = [&](int item) {
        SmallVector<int> more(greedy);
        more.push_back(item);
        int64_t cost = attach(more).bytes;
        return cost < 0 ? std::numeric_limits<int64_t>::max() : cost;
      };
      int *next = llvm::min_element(
          sequence, [&](int a, int b) { return addedBy(a) < addedBy(b); });
      greedy.push_back(*next);
      sequence.erase(next);
    }
    return attach(greedy);
  }
  Making best = attach(sequence);
  while (std::next_permutation(sequence.begin(), sequence.end())) {
    Making making = attach(sequence);
    if (making.bytes >= 0 && (best.bytes < 0 || making.bytes < best.bytes))
      best = making;
  }
  return best;
}

LayoutAttr polyrank::sharding::withoutFill(LayoutAttr layout) {
  // A fast path: most layouts have no fill, and this is called for each pair of
  // choices.
  if (llvm::none_of(layout.getDims(), [](DimAttr dim) {
        return dim.getFill() != sharding::Fill::Undefined;
      }))
    return layout;
  SmallVector<DimAttr> dims;
  for (DimAttr dim : layout.getDims())
    dims.push_back(DimAttr::get(layout.getMesh(), dim.getAxes(),
                                dim.getPadded(), sharding::Fill::Undefined,
                                dim.getHaloLow(), dim.getHaloHigh(),
                                dim.getSpills()));
  return layout.withDims(dims);
}

int64_t ReshardCosts::getValueBytes(const TensorValue &value, LayoutAttr from,
                                    ArrayRef<LayoutAttr> wanted) {
  LayoutAttr source = withoutFill(from);
  SmallVector<LayoutAttr> distinct;
  for (LayoutAttr layout : wanted) {
    LayoutAttr plain = withoutFill(layout);
    if (plain != source && !llvm::is_contained(distinct, plain))
      distinct.push_back(plain);
  }
  if (distinct.empty())
    return 0;
  int64_t cost = make(value.getType(), source, distinct).bytes;
  return cost < 0 ? cost : cost * value.executions;
}
