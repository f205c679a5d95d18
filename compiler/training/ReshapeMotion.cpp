// Moves reshapes that merge dims down a program.

#include "compiler/training/ReshapeMotion.h"

#include "dialects/graph/Forward.h"
#include "dialects/graph/Parts.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::getGlobalType;
using graph::getShape;

/// Marks the merges that `splitDims` puts after a split op; moveMergesDown
/// removes all marks at its end.
static constexpr StringRef moving = "training.moving";

SmallVector<ReshapeGroup>
polyrank::training::getGroups(ArrayRef<int64_t> source,
                              ArrayRef<int64_t> result) {
  SmallVector<ReshapeGroup> groups;
  size_t i = 0, j = 0;
  while (i < source.size() || j < result.size()) {
    ReshapeGroup group;
    bool oneLeft = i < source.size() && source[i] == 1;
    bool oneRight = j < result.size() && result[j] == 1;
    if (oneLeft || oneRight) {
      if (oneLeft)
        group.source.push_back(i++);
      if (oneRight)
        group.result.push_back(j++);
      groups.push_back(group);
      continue;
    }
    assert(i < source.size() && j < result.size());
    group.source.push_back(i);
    group.result.push_back(j);
    int64_t left = source[i++], right = result[j++];
    while (left != right)
      if (left < right) {
        group.source.push_back(i);
        left *= source[i++];
      } else {
        group.result.push_back(j);
        right *= result[j++];
      }
    groups.push_back(group);
  }
  return groups;
}

bool polyrank::training::isElementwise(Operation *op) {
  // Dropout's other operands are scalars, and it counts elements in row-major
  // order.
  return op->hasTrait<graph::Elementwise>() || isa<graph::DropoutOp>(op);
}

/// Returns true if the slice takes whole blocks of a dim that is split into
/// `sizes`, of which the first is the number of blocks.
static bool takesBlocks(graph::SliceOp slice, int64_t dim,
                        ArrayRef<int64_t> sizes) {
  int64_t block = graph::numElements(sizes.drop_front());
  return slice.getStrides()[dim] == 1 && slice.getStarts()[dim] % block == 0 &&
         slice.getLimits()[dim] % block == 0;
}

bool polyrank::training::canSplitDim(Operation *op, unsigned operand,
                                     int64_t dim, ArrayRef<int64_t> sizes) {
  if (auto slice = dyn_cast<graph::SliceOp>(op))
    return slice.isWhole(dim) || takesBlocks(slice, dim, sizes);
  if (!isElementwise(op) &&
      !isa<graph::TransposeOp, graph::BroadcastOp, graph::GatherOp,
           graph::MatmulOp, graph::ReduceOp, graph::SoftmaxOp,
           graph::LayerNormOp, graph::RmsNormOp, graph::CrossEntropyOp>(op))
    return false;
  graph::ShardingRule rule = cast<graph::GraphOp>(op).getShardingRule();
  const graph::DimFactors &factors = rule.operands[operand][dim];
  if (factors.size() != 1)
    return false;
  switch (rule.factors[factors[0]].kind) {
  case graph::FactorKind::Parallel:
  case graph::FactorKind::Reduction:
    return true;
  case graph::FactorKind::Composite: // there may be several normalized dims
    return isa<graph::LayerNormOp, graph::RmsNormOp>(op);
  default:
    return false;
  }
}

static SmallVector<int64_t> flatten(const DimSplits &splits) {
  SmallVector<int64_t> shape;
  for (const auto &sizes : splits)
    llvm::append_range(shape, sizes);
  return shape;
}

static bool isTrivial(const DimSplits &splits) {
  return llvm::all_of(splits,
                      [](const auto &sizes) { return sizes.size() == 1; });
}

/// The positions of the parts of `dims` after the split.
static SmallVector<int64_t> partsOf(const DimSplits &splits,
                                    ArrayRef<int64_t> dims) {
  SmallVector<int64_t> starts, parts;
  int64_t next = 0;
  for (const auto &sizes : splits) {
    starts.push_back(next);
    next += sizes.size();
  }
  for (int64_t dim : dims)
    for (int64_t i = 0, n = splits[dim].size(); i < n; ++i)
      parts.push_back(starts[dim] + i);
  return parts;
}

/// Splits the dims of `value`.
static Value split(OpBuilder &builder, Value value, const DimSplits &splits) {
  if (isTrivial(splits))
    return value;
  SmallVector<int64_t> shape = flatten(splits);
  Operation *op = value.getDefiningOp();
  if (auto reshape = dyn_cast_or_null<graph::ReshapeOp>(op))
    if (getShape(reshape.getInput()) == ArrayRef<int64_t>(shape))
      return reshape.getInput();
  if (auto broadcast = dyn_cast_or_null<graph::BroadcastOp>(op)) {
    DimSplits inner;
    for (int64_t dim : broadcast.getDims())
      inner.push_back(splits[dim]);
    Value input = split(builder, broadcast.getInput(), inner);
    return graph::BroadcastOp::create(builder, op->getLoc(), input, shape,
                                      partsOf(splits, broadcast.getDims()));
  }
  if (auto constant = dyn_cast_or_null<graph::ConstantOp>(op))
    if (auto elements = dyn_cast<DenseElementsAttr>(constant.getValue()))
      return graph::ConstantOp::create(
          builder, op->getLoc(),
          elements.reshape(RankedTensorType::get(
              shape, getGlobalType(value).getElementType())));
  return graph::ReshapeOp::create(builder, value.getLoc(), value, shape);
}

/// Rewrites the dims in the op's attributes after a split.
static void splitAttributes(Operation *op, ArrayRef<DimSplits> operands,
                            ArrayRef<DimSplits> results) {
  if (auto matmul = dyn_cast<graph::MatmulOp>(op)) {
    matmul.setLhsBatch(partsOf(operands[0], matmul.getLhsBatch()));
    matmul.setRhsBatch(partsOf(operands[1], matmul.getRhsBatch()));
    matmul.setLhsContract(partsOf(operands[0], matmul.getLhsContract()));
    matmul.setRhsContract(partsOf(operands[1], matmul.getRhsContract()));
  } else if (auto reduce = dyn_cast<graph::ReduceOp>(op)) {
    reduce.setDims(partsOf(operands[0], reduce.getDims()));
  } else if (auto transpose = dyn_cast<graph::TransposeOp>(op)) {
    transpose.setPermutation(partsOf(operands[0], transpose.getPermutation()));
  } else if (auto broadcast = dyn_cast<graph::BroadcastOp>(op)) {
    broadcast.setDims(partsOf(results[0], broadcast.getDims()));
  } else if (auto gather = dyn_cast<graph::GatherOp>(op)) {
    int64_t batch = 0;
    for (int64_t i = 0, n = gather.getBatchDims(); i < n; ++i)
      batch += operands[0][i].size();
    gather.setAxis(partsOf(operands[0], gather.getAxis())[0]);
    gather.setBatchDims(batch);
  } else if (auto softmax = dyn_cast<graph::SoftmaxOp>(op)) {
    softmax.setDim(partsOf(operands[0], softmax.getDim())[0]);
  } else if (auto loss = dyn_cast<graph::CrossEntropyOp>(op)) {
    loss.setAxis(partsOf(operands[0], loss.getAxis())[0]);
  } else if (auto slice = dyn_cast<graph::SliceOp>(op)) {
    SmallVector<int64_t> starts, limits, strides;
    for (auto [dim, sizes] : llvm::enumerate(operands[0])) {
      // The operand already has its new shape, so the old size is computed.
      bool isWhole = slice.getStarts()[dim] == 0 &&
                     slice.getLimits()[dim] == graph::numElements(sizes) &&
                     slice.getStrides()[dim] == 1;
      bool parted = sizes.size() > 1 && !isWhole;
      int64_t block =
          parted ? graph::numElements(ArrayRef(sizes).drop_front()) : 1;
      for (auto [i, size] : llvm::enumerate(sizes)) {
        bool cut = i == 0 && !isWhole;
        starts.push_back(cut ? slice.getStarts()[dim] / block : 0);
        limits.push_back(cut ? slice.getLimits()[dim] / block : size);
        strides.push_back(cut ? slice.getStrides()[dim] : 1);
      }
    }
    slice.setStarts(starts);
    slice.setLimits(limits);
    slice.setStrides(strides);
  }
}

/// The splits of all tensors of the op that follow from those of one operand.
static std::pair<SmallVector<DimSplits>, SmallVector<DimSplits>>
spreadSplits(Operation *op, unsigned operand, const DimSplits &splits) {
  if (auto slice = dyn_cast<graph::SliceOp>(op)) {
    DimSplits result = splits;
    for (auto [dim, sizes] : llvm::enumerate(result)) {
      int64_t total = getShape(slice)[dim];
      if (sizes.size() == 1)
        sizes[0] = total;
      else
        sizes[0] = total / graph::numElements(ArrayRef(sizes).drop_front());
    }
    return {{splits}, {result}};
  }
  graph::ShardingRule rule = cast<graph::GraphOp>(op).getShardingRule();
  DenseMap<int, ArrayRef<int64_t>> byFactor;
  for (auto [dim, sizes] : llvm::enumerate(splits))
    if (sizes.size() > 1)
      byFactor[rule.operands[operand][dim][0]] = sizes;
  auto collect = [&](ValueRange values,
                     ArrayRef<graph::TensorFactors> factors) {
    SmallVector<DimSplits> all;
    for (auto [value, dims] : llvm::zip_equal(values, factors)) {
      DimSplits own;
      for (auto [size, dim] : llvm::zip_equal(getShape(value), dims)) {
        auto found = dim.size() == 1 ? byFactor.find(dim[0]) : byFactor.end();
        own.push_back(found == byFactor.end()
                          ? SmallVector<int64_t>{size}
                          : SmallVector<int64_t>(found->second));
      }
      all.push_back(own);
    }
    return all;
  };
  return {collect(op->getOperands(), rule.operands),
          collect(op->getResults(), rule.results)};
}

Operation *polyrank::training::splitDims(Operation *op, unsigned operand,
                                         const DimSplits &splits) {
  OpBuilder builder(op);
  auto [operandSplits, resultSplits] = spreadSplits(op, operand, splits);
  SmallVector<Value> merged;
  SmallVector<Type> types;
  for (auto [result, dims] : llvm::zip_equal(op->getResults(), resultSplits))
    types.push_back(RankedTensorType::get(
        flatten(dims), getGlobalType(result).getElementType()));
  SmallVector<Value> operands;
  for (auto [value, dims] : llvm::zip_equal(op->getOperands(), operandSplits))
    operands.push_back(split(builder, value, dims));
  OperationState state(op->getLoc(), op->getName(), operands, types,
                       op->getAttrs());
  Operation *parts = builder.create(state);
  splitAttributes(parts, operandSplits, resultSplits);
  for (auto [result, part, dims] :
       llvm::zip_equal(op->getResults(), parts->getResults(), resultSplits)) {
    if (isTrivial(dims)) {
      result.replaceAllUsesWith(part);
      continue;
    }
    auto merge =
        graph::ReshapeOp::create(builder, op->getLoc(), part, getShape(result));
    merge->setAttr(moving, builder.getUnitAttr());
    result.replaceAllUsesWith(merge);
  }
  op->erase();
  return parts;
}

namespace {

/// How a reshape can move: `splits` are the splits of its result that remain
/// below, and `above` is the shape that it then produces above.
struct Move {
  DimSplits splits;
  SmallVector<int64_t> above;
};

} // namespace

static std::optional<Move>
planMove(graph::ReshapeOp reshape,
         function_ref<bool(const ReshapeGroup &)> moves) {
  ArrayRef<int64_t> source = getShape(reshape.getInput());
  ArrayRef<int64_t> result = getShape(reshape);
  Move move;
  move.splits.resize(result.size());
  bool any = false;
  for (const ReshapeGroup &group : getGroups(source, result)) {
    if (group.isMerge() && moves(group)) {
      for (int64_t dim : group.source)
        move.splits[group.result[0]].push_back(source[dim]);
      any = true;
      continue;
    }
    for (int64_t dim : group.result)
      move.splits[dim].push_back(result[dim]);
  }
  move.above = flatten(move.splits);
  return any ? std::optional(move) : std::nullopt;
}

/// Folds a reshape of a reshape into one, and removes a reshape to the same
/// shape.
static void foldReshape(graph::ReshapeOp reshape) {
  if (auto inner = reshape.getInput().getDefiningOp<graph::ReshapeOp>())
    reshape.getInputMutable().assign(inner.getInput());
  if (getShape(reshape.getInput()) == getShape(reshape))
    reshape.replaceAllUsesWith(reshape.getInput());
}

void polyrank::training::moveMergesDown(
    Block &block,
    function_ref<bool(graph::ReshapeOp, const ReshapeGroup &, OpOperand &)>
        shouldMove) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (auto reshape = dyn_cast<graph::ReshapeOp>(op)) {
      foldReshape(reshape);
      continue;
    }
    // A split op is visited again, for its other operands.
    Operation *current = &op;
    for (bool moved = true; moved;) {
      moved = false;
      for (OpOperand &operand : current->getOpOperands()) {
        auto reshape = operand.get().getDefiningOp<graph::ReshapeOp>();
        if (!reshape)
          continue;
        ArrayRef<int64_t> source = getShape(reshape.getInput());
        auto plan = planMove(reshape, [&](const ReshapeGroup &group) {
          SmallVector<int64_t> sizes;
          for (int64_t dim : group.source)
            sizes.push_back(source[dim]);
          return canSplitDim(current, operand.getOperandNumber(),
                             group.result[0], sizes) &&
                 (reshape->hasAttr(moving) ||
                  shouldMove(reshape, group, operand));
        });
        if (!plan)
          continue;
        OpBuilder builder(current);
        Value above = reshape.getInput();
        if (getShape(above) != ArrayRef<int64_t>(plan->above))
          above = graph::ReshapeOp::create(builder, reshape.getLoc(), above,
                                           plan->above);
        // The operand becomes a pure merge of `above`, which the split undoes.
        operand.set(graph::ReshapeOp::create(builder, reshape.getLoc(), above,
                                             getShape(reshape)));
        current = splitDims(current, operand.getOperandNumber(), plan->splits);
        moved = true;
        break;
      }
    }
  }
  block.walk([](Operation *op) { op->removeAttr(moving); });
  graph::eraseDeadOps(block);
}
