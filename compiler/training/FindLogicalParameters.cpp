// Pushes splits and reshapes around a matmul into its weight.

#include "compiler/training/Passes.h"
#include "compiler/training/ReshapeMotion.h"
#include "dialects/graph/Boundary.h"
#include "dialects/graph/Forward.h"
#include "dialects/graph/Parts.h"

namespace polyrank::training {
#define GEN_PASS_DEF_FINDLOGICALPARAMETERSPASS
#include "compiler/training/Passes.h.inc"
} // namespace polyrank::training

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::getShape;

namespace {

class FindLogicalParameters
    : public training::impl::FindLogicalParametersPassBase<
          FindLogicalParameters> {
  void runOnOperation() override;

  bool isParameter(Value value);
  /// The matmul's operand that is a parameter, if one is.
  std::optional<unsigned> findWeight(graph::MatmulOp matmul);
  /// Cuts a result that is only used in unequal parts, and the weight with it.
  void cutUnequalParts(graph::MatmulOp matmul);
  void splitFreeDims(graph::MatmulOp matmul);
  void absorbViews();
  bool absorbReshape(BlockArgument argument);
  bool absorbSlices(BlockArgument argument);

  func::FuncOp forward;
};

/// The place of element i in the stored tensor: base + sum(i[d] * strides[d]).
struct View {
  int64_t base = 0;
  SmallVector<int64_t> strides;
};

} // namespace

bool FindLogicalParameters::isParameter(Value value) {
  return graph::Boundary::isParameterOrState(value);
}

std::optional<unsigned>
FindLogicalParameters::findWeight(graph::MatmulOp matmul) {
  for (OpOperand &operand : matmul->getOpOperands()) {
    Value value = operand.get();
    while (auto reshape = value.getDefiningOp<graph::ReshapeOp>())
      value = reshape.getInput();
    if (isParameter(value))
      return operand.getOperandNumber();
  }
  return std::nullopt;
}

/// The dim of the result that a free dim of an operand becomes.
static int64_t resultDim(graph::MatmulOp matmul, unsigned operand,
                         int64_t position) {
  int64_t dim = matmul.getLhsBatch().size() + position;
  return operand == 0 ? dim : dim + matmul.getLhsFree().size();
}

/// The coarsest split that refines both; empty if there is none, or if one of
/// them requires that the dim stays whole.
static SmallVector<int64_t> refine(ArrayRef<int64_t> left,
                                   ArrayRef<int64_t> right) {
  // The sizes of blocks, which are products of minor parts.
  llvm::SmallSetVector<int64_t, 8> blocks;
  for (ArrayRef<int64_t> sizes : {left, right}) {
    int64_t block = 1;
    for (int64_t size : llvm::reverse(sizes))
      blocks.insert(block *= size);
  }
  SmallVector<int64_t> sorted(blocks.begin(), blocks.end());
  llvm::sort(sorted);
  SmallVector<int64_t> sizes;
  int64_t last = 1;
  for (int64_t block : sorted) {
    if (block % last != 0)
      return {};
    sizes.push_back(block / last);
    last = block;
  }
  return SmallVector<int64_t>(llvm::reverse(sizes));
}

/// The split of a dim that all users of a value want; empty if some do not.
static SmallVector<int64_t> wantedSplit(Value value, int64_t dim) {
  SmallVector<int64_t> wanted;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    SmallVector<int64_t> proposal;
    if (auto reshape = dyn_cast<graph::ReshapeOp>(user)) {
      for (const ReshapeGroup &group :
           getGroups(getShape(value), getShape(reshape))) {
        if (group.source != ArrayRef<int64_t>(dim) || group.result.empty())
          continue;
        if (group.result.size() == 1)
          proposal = wantedSplit(reshape, group.result[0]);
        else
          for (int64_t part : group.result)
            proposal.push_back(getShape(reshape)[part]);
      }
    } else if (auto slice = dyn_cast<graph::SliceOp>(user)) {
      if (slice.isWhole(dim)) {
        proposal = wantedSplit(slice, dim);
      } else {
        int64_t start = slice.getStarts()[dim], size = getShape(slice)[dim];
        int64_t total = getShape(value)[dim];
        if (slice.getStrides()[dim] == 1 && start % size == 0 &&
            total % size == 0) {
          proposal = wantedSplit(slice, dim);
          if (proposal.empty())
            proposal = {size};
          proposal.insert(proposal.begin(), total / size);
        }
      }
    } else if (isElementwise(user) || isa<graph::TransposeOp>(user)) {
      graph::ShardingRule rule = cast<graph::GraphOp>(user).getShardingRule();
      const auto &factors = rule.operands[use.getOperandNumber()][dim];
      for (auto [position, result] : llvm::enumerate(rule.results[0]))
        if (!factors.empty() && result == factors)
          proposal = wantedSplit(user->getResult(0), position);
    }
    if (proposal.empty())
      return {};
    wanted = wanted.empty() ? proposal : refine(wanted, proposal);
    if (wanted.empty())
      return {};
  }
  return wanted;
}

void FindLogicalParameters::splitFreeDims(graph::MatmulOp matmul) {
  std::optional<unsigned> weight = findWeight(matmul);
  if (!weight)
    return;
  SmallVector<int64_t> free =
      *weight == 0 ? matmul.getLhsFree() : matmul.getRhsFree();
  DimSplits splits;
  for (int64_t size : getShape(matmul->getOperand(*weight)))
    splits.push_back({size});
  bool any = false;
  for (auto [position, dim] : llvm::enumerate(free)) {
    SmallVector<int64_t> wanted =
        wantedSplit(matmul, resultDim(matmul, *weight, position));
    if (wanted.size() < 2)
      continue;
    splits[dim] = wanted;
    any = true;
  }
  if (any)
    splitDims(matmul, *weight, splits);
}

// Parts of unequal sizes.

/// The slices that partition a dim, sorted by their starts; empty if `value`
/// has any other users.
static SmallVector<std::pair<int64_t, int64_t>> findParts(Value value,
                                                          int64_t dim) {
  SmallVector<std::pair<int64_t, int64_t>> parts;
  for (Operation *user : value.getUsers()) {
    auto slice = dyn_cast<graph::SliceOp>(user);
    if (!slice || slice.getStrides()[dim] != 1)
      return {};
    for (int64_t other = 0, rank = getShape(value).size(); other < rank;
         ++other)
      if (other != dim && !slice.isWhole(other))
        return {};
    parts.push_back({slice.getStarts()[dim], slice.getLimits()[dim]});
  }
  llvm::sort(parts);
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  int64_t next = 0;
  for (auto [start, limit] : parts) {
    if (start != next)
      return {};
    next = limit;
  }
  if (next != getShape(value)[dim] || parts.size() < 2)
    return {};
  return parts;
}

/// If `dim` is the major part of a dim that a reshape splits: the split dim,
/// and the number of its elements per index of `dim`; else nullopt.
static std::optional<std::pair<int64_t, int64_t>>
majorOf(graph::ReshapeOp reshape, int64_t dim) {
  for (const ReshapeGroup &group :
       getGroups(getShape(reshape.getInput()), getShape(reshape))) {
    if (group.source.size() != 1 || group.result.size() < 2 ||
        group.result.front() != dim)
      continue;
    int64_t block = 1;
    for (int64_t minor : ArrayRef<int64_t>(group.result).drop_front())
      block *= getShape(reshape)[minor];
    return std::pair(group.source.front(), block);
  }
  return std::nullopt;
}

/// Turns slices of transposes of `value` into transposes of slices, if all
/// users of `value` are slices or sliced transposes.
static void sliceFirst(Value value) {
  auto isSliced = [](Operation *user) {
    return isa<graph::SliceOp>(user) ||
           (isa<graph::TransposeOp>(user) &&
            llvm::all_of(user->getUsers(), [](Operation *next) {
              return isa<graph::SliceOp>(next);
            }));
  };
  if (!llvm::all_of(value.getUsers(), isSliced))
    return;
  for (Operation *user : llvm::make_early_inc_range(value.getUsers())) {
    auto transpose = dyn_cast<graph::TransposeOp>(user);
    if (!transpose)
      continue;
    ArrayRef<int64_t> permutation = transpose.getPermutation();
    for (Operation *next : llvm::make_early_inc_range(transpose->getUsers())) {
      auto slice = cast<graph::SliceOp>(next);
      size_t rank = permutation.size();
      SmallVector<int64_t> starts(rank), limits(rank), strides(rank);
      for (auto [to, from] : llvm::enumerate(permutation)) {
        starts[from] = slice.getStarts()[to];
        limits[from] = slice.getLimits()[to];
        strides[from] = slice.getStrides()[to];
      }
      OpBuilder builder(slice);
      auto part = graph::SliceOp::create(builder, slice.getLoc(), value, starts,
                                         limits, strides);
      auto turned = graph::TransposeOp::create(builder, transpose.getLoc(),
                                               part, permutation);
      part->setDiscardableAttrs(slice->getDiscardableAttrDictionary());
      turned->setDiscardableAttrs(transpose->getDiscardableAttrDictionary());
      slice.replaceAllUsesWith(turned.getResult());
      slice.erase();
    }
    transpose.erase();
  }
}

/// Returns [start, limit) of a dim of `value`, computed from parts of its
/// operands.
static Value cut(OpBuilder &builder, Value value, int64_t dim, int64_t start,
                 int64_t limit) {
  Operation *op = value.getDefiningOp();
  SmallVector<int64_t> shape(getShape(value));
  shape[dim] = limit - start;
  auto type = RankedTensorType::get(
      shape, graph::getGlobalType(value).getElementType());
  if (auto constant = dyn_cast_or_null<graph::ConstantOp>(op))
    if (std::optional<double> number = graph::getSplat(value))
      return graph::ConstantOp::create(builder, op->getLoc(), type, *number);
  if (auto broadcast = dyn_cast_or_null<graph::BroadcastOp>(op)) {
    Value input = broadcast.getInput();
    const auto *found = llvm::find(broadcast.getDims(), dim);
    if (found != broadcast.getDims().end())
      input = cut(builder, input, found - broadcast.getDims().begin(), start,
                  limit);
    return graph::BroadcastOp::create(builder, op->getLoc(), input, shape,
                                      broadcast.getDims());
  }
  if (auto reshape = dyn_cast_or_null<graph::ReshapeOp>(op))
    if (auto major = majorOf(reshape, dim)) {
      auto [source, block] = *major;
      Value input = cut(builder, reshape.getInput(), source, start * block,
                        limit * block);
      return graph::ReshapeOp::create(builder, op->getLoc(), input, shape);
    }
  auto matmul = dyn_cast_or_null<graph::MatmulOp>(op);
  if (!matmul && !(op && isElementwise(op)))
    return graph::SliceOp::create(builder, value.getLoc(), value, dim, start,
                                  limit);
  graph::ShardingRule rule = cast<graph::GraphOp>(op).getShardingRule();
  const graph::DimFactors &factors = rule.results[0][dim];
  SmallVector<Value> operands;
  for (auto [operand, dims] :
       llvm::zip_equal(op->getOperands(), rule.operands)) {
    const auto *found = llvm::find(dims, factors);
    operands.push_back(
        found == dims.end()
            ? operand
            : cut(builder, operand, found - dims.begin(), start, limit));
  }
  OperationState state(op->getLoc(), op->getName(), operands, type,
                       op->getAttrs());
  return builder.create(state)->getResult(0);
}

void FindLogicalParameters::cutUnequalParts(graph::MatmulOp matmul) {
  std::optional<unsigned> weight = findWeight(matmul);
  if (!weight)
    return;
  unsigned count =
      (*weight == 0 ? matmul.getLhsFree() : matmul.getRhsFree()).size();
  for (unsigned position = 0; position < count; ++position) {
    int64_t dim = resultDim(matmul, *weight, position);
    // Follows elementwise ops with a single use to the slices, also after a
    // reshape that splits off heads. Parts of a dropout would draw the same
    // random numbers.
    Value value = matmul;
    while (value.hasOneUse()) {
      Operation *user = *value.getUsers().begin();
      if (auto reshape = dyn_cast<graph::ReshapeOp>(user)) {
        std::optional<int64_t> heads;
        for (int64_t to = 0, rank = getShape(reshape).size(); to < rank; ++to)
          if (auto major = majorOf(reshape, to); major && major->first == dim)
            heads = to;
        if (!heads)
          break;
        dim = *heads;
      } else if (!isElementwise(user) || isa<graph::DropoutOp>(user)) {
        break;
      }
      value = user->getResult(0);
    }
    sliceFirst(value);
    auto parts = findParts(value, dim);
    auto isEqual = [&](std::pair<int64_t, int64_t> part) {
      return part.second - part.first == parts[0].second;
    };
    if (parts.empty() || llvm::all_of(parts, isEqual))
      continue;
    for (auto [start, limit] : parts) {
      OpBuilder builder(value.getContext());
      builder.setInsertionPointAfterValue(value);
      Value part = cut(builder, value, dim, start, limit);
      for (Operation *user : llvm::make_early_inc_range(value.getUsers())) {
        auto slice = cast<graph::SliceOp>(user);
        if (slice.getStarts()[dim] != start)
          continue;
        slice.replaceAllUsesWith(part);
        slice.erase();
      }
    }
    return;
  }
}

// Views of stored tensors.

static View getView(func::FuncOp function, BlockArgument argument) {
  View view;
  if (DenseI64ArrayAttr array =
          graph::Boundary(function).getView(argument.getArgNumber())) {
    view.base = array[0];
    llvm::append_range(view.strides, array.asArrayRef().drop_front());
  } else {
    view.strides = graph::getStrides(getShape(argument));
  }
  return view;
}

static void setView(func::FuncOp function, BlockArgument argument,
                    const View &view) {
  SmallVector<int64_t> numbers{view.base};
  llvm::append_range(numbers, view.strides);
  graph::Boundary(function).setView(argument.getArgNumber(), numbers);
}

/// The strides of a reshaped view; nullopt if its elements have no constant
/// strides.
static std::optional<SmallVector<int64_t>>
reshapeStrides(ArrayRef<int64_t> shape, ArrayRef<int64_t> strides,
               ArrayRef<int64_t> result) {
  SmallVector<int64_t> newStrides(result.size(), 1);
  for (const ReshapeGroup &group : getGroups(shape, result)) {
    for (size_t i = 1; i < group.source.size(); ++i) {
      int64_t outer = group.source[i - 1], inner = group.source[i];
      if (strides[outer] != strides[inner] * shape[inner])
        return std::nullopt;
    }
    int64_t stride = group.source.empty() ? 1 : strides[group.source.back()];
    for (int64_t dim : llvm::reverse(group.result)) {
      newStrides[dim] = stride;
      stride *= result[dim];
    }
  }
  return newStrides;
}

bool FindLogicalParameters::absorbReshape(BlockArgument argument) {
  Type type;
  for (Operation *user : argument.getUsers()) {
    auto reshape = dyn_cast<graph::ReshapeOp>(user);
    if (!reshape || (type && reshape.getType() != type))
      return false;
    type = reshape.getType();
  }
  if (!type)
    return false;
  View view = getView(forward, argument);
  auto strides = reshapeStrides(getShape(argument), view.strides,
                                cast<RankedTensorType>(type).getShape());
  if (!strides)
    return false;
  view.strides = *strides;
  for (Operation *user : llvm::make_early_inc_range(argument.getUsers())) {
    user->getResult(0).replaceAllUsesWith(argument);
    user->erase();
  }
  argument.setType(cast<RankedTensorType>(type));
  setView(forward, argument, view);
  return true;
}

bool FindLogicalParameters::absorbSlices(BlockArgument argument) {
  for (int64_t dim = 0, rank = getShape(argument).size(); dim < rank; ++dim) {
    auto parts = findParts(argument, dim);
    if (parts.empty())
      continue;
    View view = getView(forward, argument);
    graph::Boundary boundary(forward);
    Attribute role = boundary.getArgument(argument.getArgNumber());
    for (auto [start, limit] : parts) {
      SmallVector<int64_t> shape(getShape(argument));
      shape[dim] = limit - start;
      unsigned number = forward.getNumArguments();
      auto type = RankedTensorType::get(
          shape, graph::getGlobalType(argument).getElementType());
      BlockArgument part =
          boundary.insertArgument(number, type, role, argument.getLoc());
      View partView = view;
      partView.base += start * view.strides[dim];
      setView(forward, part, partView);
      for (Operation *user : llvm::make_early_inc_range(argument.getUsers())) {
        auto slice = cast<graph::SliceOp>(user);
        if (slice.getStarts()[dim] != start)
          continue;
        slice.replaceAllUsesWith(part);
        slice.erase();
      }
    }
    boundary.eraseArgument(argument.getArgNumber());
    return true;
  }
  return false;
}

void FindLogicalParameters::absorbViews() {
  graph::Boundary boundary(forward);
  for (bool changed = true; changed;) {
    changed = false;
    for (BlockArgument argument : forward.getArguments())
      // A parameter that the model updates itself keeps its shape.
      if (isParameter(argument) && !boundary.getNext(argument.getArgNumber()) &&
          (absorbReshape(argument) || absorbSlices(argument))) {
        changed = true;
        break;
      }
  }
  forward.setType(FunctionType::get(forward.getContext(),
                                    forward.getBody().getArgumentTypes(),
                                    forward.getResultTypes()));
}

void FindLogicalParameters::runOnOperation() {
  FailureOr<func::FuncOp> found = graph::getForward(getOperation());
  if (failed(found))
    return signalPassFailure();
  forward = *found;
  Block &body = forward.getBody().front();
  auto matmuls = [&] {
    return llvm::to_vector(body.getOps<graph::MatmulOp>());
  };
  for (graph::MatmulOp matmul : matmuls())
    cutUnequalParts(matmul);
  graph::eraseDeadOps(body);
  // Cut parts become separate parameters before their dims are split.
  absorbViews();
  for (graph::MatmulOp matmul : matmuls())
    splitFreeDims(matmul);
  // Moves only the merges that splitFreeDims left.
  moveMergesDown(body, [](graph::ReshapeOp, const ReshapeGroup &, OpOperand &) {
    return false;
  });
  absorbViews();
}
