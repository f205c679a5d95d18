// choose-orders: chooses the memory order of tensor dims that GEMMs read and
// write.

#include <deque>

#include "compiler/lowering/DimOrder.h"
#include "compiler/lowering/Passes.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/Parts.h"
#include "dialects/graph/Provenance.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::lowering;
using graph::getShape;

namespace polyrank::lowering {
#define GEN_PASS_DEF_CHOOSEORDERS
#include "compiler/lowering/Passes.h.inc"
} // namespace polyrank::lowering

namespace {

/// The chosen orders of values; other values lie as their types say.
class Orders {
public:
  DimOrder of(Value value) const {
    auto found = chosen.find(value);
    return found == chosen.end() ? identityOrder(getShape(value).size())
                                 : found->second;
  }
  bool isIdentity(Value value) const { return !chosen.contains(value); }
  void set(Value value, DimOrder order) {
    if (!llvm::is_sorted(order))
      chosen[value] = std::move(order);
  }
  void add(const Orders &others) {
    for (const auto &entry : others.chosen)
      chosen.insert(entry);
  }
  bool isEmpty() const { return chosen.empty(); }
  auto values() const { return llvm::make_first_range(chosen); }

private:
  llvm::MapVector<Value, DimOrder> chosen;
};

/// The orders of an op's operands and result if it is computed in some order.
struct OrderedOp {
  DimOrder operand; // each operand's, canonical
  DimOrder result;  // dims of size 1 are where the op leaves them
};

/// Chooses the orders in one block.
class OrderChooser {
public:
  explicit OrderChooser(Block &block) : block(block) {}
  /// With `always`, regions that gain nothing are changed too.
  void run(bool always);

private:
  const std::optional<DimParts> &partsOf(Operation *op);
  std::optional<OrderedOp> orderedOp(Operation *op, const Orders &orders);
  int64_t countMoved(Operation *op, const Orders &orders);
  bool isFlexible(Value value) {
    return value.getDefiningOp() && value.getParentBlock() == &block &&
           partsOf(value.getDefiningOp());
  }
  Orders spread(Value seed);
  std::vector<Value> findSeeds();

  Value get(OpBuilder &builder, Value value, ArrayRef<int64_t> order);
  void rewrite(Operation *op);
  Value build(OpBuilder &builder, Operation *op, const OrderedOp &ordered);

  Block &block;
  llvm::DenseMap<Operation *, std::optional<DimParts>> parts;
  llvm::DenseSet<Value> seen;
  Orders orders;
  IRMapping built; // values whose order is chosen, as they lie in memory
};

int64_t countElements(Value value) {
  return graph::numElements(getShape(value));
}

/// Returns true if the value is built directly in whatever order is needed.
bool hasNoOrder(Value value) {
  return value.getDefiningOp<graph::IotaOp>() || graph::getSplat(value);
}

} // namespace

const std::optional<DimParts> &OrderChooser::partsOf(Operation *op) {
  auto [entry, isNew] = parts.try_emplace(op);
  if (isNew)
    entry->second = dimPartsOf(op);
  return entry->second;
}

/// The orders in which `op` gives its result (for a reduction: takes its
/// operand) in the chosen order; nullopt if it must be computed as written.
std::optional<OrderedOp> OrderChooser::orderedOp(Operation *op,
                                                 const Orders &orders) {
  const std::optional<DimParts> &parts = partsOf(op);
  if (!parts)
    return std::nullopt;
  ArrayRef<int64_t> from = getShape(op->getOperand(0)),
                    to = getShape(op->getResult(0));
  DimOrder wanted = orders.of(op->getResult(0));
  if (auto reduce = dyn_cast<graph::ReduceOp>(op)) {
    DimOrder order = orders.of(op->getOperand(0)), reduced = order;
    llvm::erase_if(reduced, [&](int64_t d) {
      return !llvm::is_contained(reduce.getDims(), d);
    });
    auto result = parts->toResult(order, to);
    // The first of equal elements is defined by the order of the dims.
    return !result || (reduce.getFirst() && !llvm::is_sorted(reduced))
               ? std::nullopt
               : std::optional<OrderedOp>({order, *result});
  }
  auto operand = parts->toOperand(wanted, from);
  if (!operand)
    return std::nullopt;
  *operand = canonicalOrder(*operand, from);
  if (isa<graph::BroadcastOp>(op))
    return OrderedOp{*operand, wanted};
  auto result = parts->toResult(*operand, to);
  return result && canonicalOrder(*result, to) == wanted
             ? std::optional<OrderedOp>({*operand, *result})
             : std::nullopt;
}

/// The number of elements that are transposed for `op`.
int64_t OrderChooser::countMoved(Operation *op, const Orders &orders) {
  std::optional<OrderedOp> ordered = orderedOp(op, orders);
  int64_t count = 0;
  for (Value operand : op->getOperands())
    if (isa<RankedTensorType>(operand.getType()) && !hasNoOrder(operand) &&
        !(ordered ? orders.of(operand) == ordered->operand
                  : orders.isIdentity(operand)))
      count += countElements(operand);
  for (Value result : op->getResults())
    if (isa<RankedTensorType>(result.getType()) &&
        !(ordered ? orders.of(result) ==
                        canonicalOrder(ordered->result, getShape(result))
                  : orders.isIdentity(result)))
      count += countElements(result);
  return count;
}

/// Propagates from `seed`, which lies as its type says, through ops that work
/// in any order, to all connected values.
Orders OrderChooser::spread(Value seed) {
  Orders result;
  std::deque<Value> pending = {seed};
  seen.insert(seed);
  auto reach = [&](Value value, std::optional<DimOrder> order) {
    ArrayRef<int64_t> shape = getShape(value);
    // A value with at most one dim larger than 1 determines no order.
    if (!order || llvm::count_if(shape, [](int64_t n) { return n > 1; }) < 2 ||
        hasNoOrder(value) || !isFlexible(value) || !seen.insert(value).second)
      return;
    result.set(value, canonicalOrder(*order, shape));
    pending.push_back(value);
  };
  auto reachOperands = [&](Operation *op, ArrayRef<int64_t> order) {
    for (Value operand : op->getOperands())
      reach(operand, partsOf(op)->toOperand(order, getShape(operand)));
  };
  while (!pending.empty()) {
    Value value = pending.front();
    pending.pop_front();
    DimOrder order = result.of(value);
    if (isFlexible(value))
      reachOperands(value.getDefiningOp(), order);
    for (Operation *user : value.getUsers()) {
      if (user->getBlock() != &block || !partsOf(user))
        continue;
      Value made = user->getResult(0);
      if (auto natural = partsOf(user)->toResult(order, getShape(made))) {
        reach(made, natural);
        reachOperands(user, *natural);
      }
    }
  }
  return result;
}

/// The values between ops that work in any order and ops that do not: those of
/// products first, the largest first.
std::vector<Value> OrderChooser::findSeeds() {
  std::vector<std::tuple<bool, int64_t, size_t>> keys;
  std::vector<Value> seeds, sorted;
  if (block.getOps<graph::TransposeOp>().empty())
    return {};
  for (Operation &op : block) {
    if (partsOf(&op))
      continue;
    auto add = [&](Value value) {
      if (!isa<RankedTensorType>(value.getType()) || hasNoOrder(value))
        return;
      keys.push_back(
          {!graph::isProduct(&op), -countElements(value), seeds.size()});
      seeds.push_back(value);
    };
    for (Value result : op.getResults())
      add(result);
    for (Value operand : op.getOperands())
      if (isFlexible(operand))
        add(operand);
  }
  llvm::sort(keys);
  for (auto [isOther, size, number] : keys)
    sorted.push_back(seeds[number]);
  return sorted;
}

void OrderChooser::run(bool always) {
  for (Value seed : findSeeds()) {
    if (seen.contains(seed))
      continue;
    Orders candidate = spread(seed);
    llvm::SetVector<Operation *> ops;
    for (Value value : candidate.values()) {
      ops.insert(value.getDefiningOp());
      for (Operation *user : value.getUsers())
        ops.insert(user);
    }
    int64_t gain = 0;
    for (Operation *op : ops)
      gain += countMoved(op, orders) - countMoved(op, candidate);
    if (gain > 0 || always)
      orders.add(candidate);
  }
  if (orders.isEmpty())
    return;
  SmallVector<Operation *> ops;
  for (Operation &op : block)
    ops.push_back(&op);
  for (Operation *op : ops)
    rewrite(op);
  for (Operation *op : llvm::reverse(ops))
    if (isOpTriviallyDead(op))
      op->erase();
}

/// Returns `value` in memory order `order`.
Value OrderChooser::get(OpBuilder &builder, Value value,
                        ArrayRef<int64_t> order) {
  if (hasNoOrder(value) && !llvm::is_sorted(order)) {
    auto type = cast<RankedTensorType>(value.getType());
    type = type.clone(inOrder(type.getShape(), order));
    if (auto iota = value.getDefiningOp<graph::IotaOp>())
      return graph::IotaOp::create(builder, value.getLoc(), type,
                                   llvm::find(order, iota.getDim()) -
                                       order.begin());
    return graph::splat(builder, value.getLoc(), type, *graph::getSplat(value));
  }
  DimOrder from = orders.of(value);
  value = built.lookupOrDefault(value);
  return ArrayRef<int64_t>(from) == order
             ? value
             : graph::TransposeOp::create(builder, value.getLoc(), value,
                                          permutationBetween(from, order));
}

void OrderChooser::rewrite(Operation *op) {
  auto isChosen = [&](Value value) { return !orders.isIdentity(value); };
  bool makes = llvm::any_of(op->getResults(), isChosen);
  // Ops inside regions read values as they are written.
  SmallVector<OpOperand *> reads;
  op->walk([&](Operation *inner) {
    for (OpOperand &operand : inner->getOpOperands())
      if (isChosen(operand.get()))
        reads.push_back(&operand);
  });
  if (!makes && reads.empty())
    return;
  graph::ProvenanceCopier provenance(op);
  OpBuilder builder(op, &provenance);
  if (std::optional<OrderedOp> ordered = orderedOp(op, orders)) {
    Value result = op->getResult(0), value = build(builder, op, *ordered);
    ArrayRef<int64_t> shape = getShape(result);
    DimOrder natural = canonicalOrder(ordered->result, shape),
             wanted = orders.of(result);
    // Move dims of size 1 to their places.
    if (SmallVector<int64_t> there = inOrder(shape, natural);
        getShape(value) != ArrayRef<int64_t>(there))
      value = graph::ReshapeOp::create(builder, op->getLoc(), value, there);
    if (natural != wanted)
      value = graph::TransposeOp::create(builder, op->getLoc(), value,
                                         permutationBetween(natural, wanted));
    if (makes)
      built.map(result, value);
    else
      result.replaceAllUsesWith(value);
    return;
  }
  for (OpOperand *read : reads)
    read->set(
        get(builder, read->get(), identityOrder(getShape(read->get()).size())));
  builder.setInsertionPointAfter(op);
  for (Value result : op->getResults())
    if (isChosen(result))
      built.map(result, graph::TransposeOp::create(builder, op->getLoc(),
                                                   result, orders.of(result)));
}

/// Builds `op` on operands in order `ordered.operand`; the result is in order
/// `ordered.result`, except for dims of size 1.
Value OrderChooser::build(OpBuilder &builder, Operation *op,
                          const OrderedOp &ordered) {
  ArrayRef<int64_t> order = ordered.operand;
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(get(builder, operand, order));
  Location location = op->getLoc();
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  SmallVector<int64_t> shape = inOrder(type.getShape(), ordered.result);
  auto placeOf = [](ArrayRef<int64_t> order, int64_t dim) -> int64_t {
    return llvm::find(order, dim) - order.begin();
  };
  auto permuted = [&](ArrayRef<int64_t> list) { return inOrder(list, order); };
  Value input = operands[0];
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](graph::TransposeOp) { return input; })
      .Case([&](graph::ReshapeOp) -> Value {
        return graph::ReshapeOp::create(builder, location, input, shape);
      })
      .Case([&](graph::ReduceOp op) -> Value {
        SmallVector<int64_t> dims;
        for (int64_t d : op.getDims())
          dims.push_back(placeOf(order, d));
        llvm::sort(dims);
        return graph::ReduceOp::create(builder, location, op.getKind(), input,
                                       dims, op.getFirst());
      })
      .Case([&](graph::BroadcastOp op) -> Value {
        // Dims of size 1 need not be in the order of the result's dims.
        SmallVector<int64_t> sizes, dims;
        for (auto [place, d] : llvm::enumerate(ordered.result))
          if (auto found = llvm::find(op.getDims(), d);
              found != op.getDims().end()) {
            dims.push_back(place);
            sizes.push_back(type.getDimSize(d));
          }
        if (getShape(input) != ArrayRef<int64_t>(sizes))
          input = graph::ReshapeOp::create(builder, location, input, sizes);
        return graph::BroadcastOp::create(builder, location, input, shape,
                                          dims);
      })
      .Case([&](graph::UnfoldOp op) -> Value {
        return graph::UnfoldOp::create(
            builder, location, input, placeOf(order, op.getDim()), op.getSize(),
            op.getStride(), op.getDilation(), op.getLow(), op.getHigh(),
            op.getValue().convertToDouble());
      })
      .Case([&](graph::FoldOp op) -> Value {
        return graph::FoldOp::create(
            builder, location, input, placeOf(order, op.getDim()),
            type.getDimSize(op.getDim()), op.getStride(), op.getDilation(),
            op.getLow());
      })
      .Case([&](graph::PadOp op) -> Value {
        return graph::PadOp::create(
            builder, location, input, permuted(op.getLow()),
            permuted(op.getHigh()), permuted(op.getInterior()),
            op.getValue().convertToDouble());
      })
      .Case([&](graph::SliceOp op) -> Value {
        return graph::SliceOp::create(
            builder, location, input, permuted(op.getStarts()),
            permuted(op.getLimits()), permuted(op.getStrides()));
      })
      .Case([&](graph::ConcatOp op) -> Value {
        return graph::ConcatOp::create(builder, location, operands,
                                       placeOf(order, op.getDim()));
      })
      .Default([&](Operation *op) {
        Operation *clone = builder.clone(*op);
        clone->setOperands(operands);
        clone->getResult(0).setType(type.clone(shape));
        return clone->getResult(0);
      });
}

namespace {
struct ChooseOrdersPass : lowering::impl::ChooseOrdersBase<ChooseOrdersPass> {
  using ChooseOrdersBase::ChooseOrdersBase;
  void runOnOperation() override {
    SmallVector<Block *> blocks;
    getOperation().walk([&](Block *block) { blocks.push_back(block); });
    for (Block *block : blocks)
      OrderChooser(*block).run(always);
  }
};
} // namespace
