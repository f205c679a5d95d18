// Finds the updates of parameters in a step.

#include "compiler/sharding/UpdateOps.h"

#include "dialects/sharding/Sharding.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

bool polyrank::sharding::isUniform(Operation *op) {
  if (auto constant = dyn_cast<graph::ConstantOp>(op))
    return isa<SplatElementsAttr>(constant.getValue());
  if (isa<sharding::ReshardOp>(op)) {
    Operation *def = op->getOperand(0).getDefiningOp();
    return op->getNumResults() == 1 && def && isUniform(def);
  }
  auto broadcast = dyn_cast<graph::BroadcastOp>(op);
  return broadcast && shapeOf(broadcast.getInput()).empty();
}

/// Returns true if the op computes, or moves, each element of this shape
/// independently.
static bool isOnEachElement(Operation *op, ArrayRef<int64_t> shape) {
  if (!isa<sharding::ReshardOp>(op) && !op->hasTrait<graph::Elementwise>())
    return false;
  auto hasShape = [&](Value value) { return shapeOf(value) == shape; };
  return op->getNumResults() == 1 && hasShape(op->getResult(0)) &&
         llvm::all_of(op->getOperands(), hasShape);
}

namespace {
class UpdateFinder {
public:
  explicit UpdateFinder(func::FuncOp step)
      : step(step), boundary(step), block(step.getBody().front()) {}

  FailureOr<UpdateOps> run();

private:
  void readBoundary();
  void findOps();
  llvm::DenseSet<Operation *>
  findNextWithoutUpdate(const llvm::SetVector<Operation *> &work);
  LogicalResult findParameter(graph::GradientOp gradient);
  void collect(Update &update);
  void leaveToOthers(const Update &update, llvm::DenseSet<Operation *> &own);
  /// Sorts ops into the order of the block.
  SmallVector<Operation *> sorted(const llvm::DenseSet<Operation *> &found);

  func::FuncOp step;
  graph::Boundary boundary;
  Block &block;
  /// Positions of ops in the block.
  DenseMap<Operation *, unsigned> positions;
  /// By parameter and view: the arguments (the parameter and its state) that
  /// have a next value, each with the number of the result that is this value.
  DenseMap<std::pair<Attribute, Attribute>,
           SmallVector<std::pair<unsigned, unsigned>>>
      kept;
  UpdateOps result;
  /// The ops that compute new parameters and states from the gradients.
  llvm::DenseSet<Operation *> ops;
};
} // namespace

/// The ops that depend on `roots`, other than through `graph.gradient` ops;
/// terminators are left out.
static llvm::SetVector<Operation *> findUsers(ArrayRef<Value> roots) {
  llvm::SetVector<Operation *> found;
  auto addUsers = [&](Value value) {
    for (Operation *user : value.getUsers())
      if (!isa<graph::GradientOp>(user) &&
          !user->hasTrait<OpTrait::IsTerminator>())
        found.insert(user);
  };
  llvm::for_each(roots, addUsers);
  for (size_t i = 0; i < found.size(); ++i)
    llvm::for_each(found[i]->getResults(), addUsers);
  return found;
}

void UpdateFinder::findOps() {
  // The work is all ops that depend on a gradient, and the ops that compute
  // their operands. Scalars that do not depend on parameters or state are
  // excluded, since all updates share them.
  SmallVector<Value> gradients, kept;
  for (auto gradient : block.getOps<graph::GradientOp>())
    gradients.push_back(gradient);
  for (Update &update : result.updates)
    for (auto [argument, number] : update.boundary)
      kept.push_back(step.getArgument(argument));
  llvm::SetVector<Operation *> work = findUsers(gradients),
                               ofKept = findUsers(kept);
  llvm::DenseSet<Operation *> withoutUpdate = findNextWithoutUpdate(work);
  work.remove_if([&](Operation *op) { return withoutUpdate.contains(op); });
  for (size_t i = 0; i < work.size(); ++i)
    for (Value operand : work[i]->getOperands())
      if (Operation *def = operand.getDefiningOp();
          def && !isa<graph::GradientOp>(def) &&
          (!shapeOf(operand).empty() || ofKept.contains(def)))
        work.insert(def);
  ops.insert(work.begin(), work.end());
}

/// The ops among `work` that only serve the new values of parameters that no
/// gradient updates, such as running statistics that a step keeps if a gradient
/// is not finite. What they read is a part of the forward.
llvm::DenseSet<Operation *>
UpdateFinder::findNextWithoutUpdate(const llvm::SetVector<Operation *> &work) {
  llvm::DenseSet<unsigned> updated;
  for (Update &update : result.updates)
    updated.insert(update.parameter.getArgNumber());
  llvm::DenseSet<Operation *> found;
  auto isOfOthers = [&](OpOperand &use) {
    if (use.getOwner() != block.getTerminator())
      return found.contains(use.getOwner());
    auto replaced = boundary.getReplaced(use.getOperandNumber());
    return replaced && !updated.contains(*replaced) &&
           boundary.getArgument<graph::ParameterAttr>(*replaced);
  };
  for (Operation &op : llvm::reverse(block))
    if (work.contains(&op) && !op.use_empty() &&
        llvm::all_of(op.getUses(), isOfOthers))
      found.insert(&op);
  return found;
}

void UpdateFinder::readBoundary() {
  DenseMap<unsigned, unsigned> next;
  for (unsigned i = 0; i < boundary.getNumResults(); ++i)
    if (std::optional<unsigned> replaced = boundary.getReplaced(i))
      next.try_emplace(*replaced, i);
  for (unsigned i = 0; i < boundary.getNumArguments(); ++i)
    if (FlatSymbolRefAttr parameter = boundary.getParameter(i))
      if (auto found = next.find(i); found != next.end())
        kept[{parameter, boundary.getView(i)}].push_back({i, found->second});
  for (Operation &op : block)
    positions.try_emplace(&op, positions.size());
}

SmallVector<Operation *>
UpdateFinder::sorted(const llvm::DenseSet<Operation *> &found) {
  SmallVector<Operation *> result(found.begin(), found.end());
  llvm::sort(result, [&](Operation *left, Operation *right) {
    return positions.at(left) < positions.at(right);
  });
  return result;
}

LogicalResult UpdateFinder::findParameter(graph::GradientOp gradient) {
  Update update;
  update.gradient = gradient;
  for (auto [argument, number] :
       kept.lookup({gradient.getParameterAttr(), gradient.getViewAttr()})) {
    // State of another shape belongs to the stored tensor, not to this view.
    if (shapeOf(step.getArgument(argument)) != shapeOf(gradient))
      continue;
    if (boundary.getArgument<graph::ParameterAttr>(argument))
      update.parameter = step.getArgument(argument);
    update.boundary.push_back({argument, number});
  }
  if (!update.parameter)
    return gradient.emitOpError("is of no parameter of the step, with that "
                                "view, that has a next value");
  result.updates.push_back(std::move(update));
  return success();
}

/// Follows elementwise ops from the gradient, the parameter, the state and
/// their new values. A scalar parameter has no ops of its own: all computation
/// on scalars would have its shape.
void UpdateFinder::collect(Update &update) {
  ArrayRef<int64_t> shape = update.getShape();
  if (shape.empty())
    return;
  SmallVector<Operation *> work(update.gradient->getUsers());
  for (auto [argument, number] : update.boundary) {
    llvm::append_range(work, step.getArgument(argument).getUsers());
    if (Operation *op =
            block.getTerminator()->getOperand(number).getDefiningOp())
      work.push_back(op);
  }
  llvm::DenseSet<Operation *> own;
  while (!work.empty()) {
    Operation *op = work.pop_back_val();
    if (!ops.contains(op))
      continue;
    bool isSource = isUniform(op) && shapeOf(op->getResult(0)) == shape;
    if ((!isSource && !isOnEachElement(op, shape)) || !own.insert(op).second)
      continue;
    for (Value operand : op->getOperands())
      if (Operation *def = operand.getDefiningOp())
        work.push_back(def);
    if (!isSource) // users in other updates do not matter
      llvm::append_range(work, op->getUsers());
  }
  leaveToOthers(update, own);
  SmallVector<Operation *> ordered = sorted(own);
  update.own.insert(ordered.begin(), ordered.end());
}

/// Removes from `own` the ops that read whole tensors which shared ops compute
/// from the gradient (such as a matrix's product with itself), and the ops that
/// serve only shared ops. Those are laid out together, with the fewest bytes.
void UpdateFinder::leaveToOthers(const Update &update,
                                 llvm::DenseSet<Operation *> &own) {
  auto isOfOthers = [&](Value operand) {
    Operation *def = operand.getDefiningOp();
    return def && ops.contains(def) && !own.contains(def);
  };
  SmallVector<Operation *> ordered = sorted(own);
  for (Operation *op : ordered)
    if (!isUniform(op) && llvm::any_of(op->getOperands(), isOfOthers))
      own.erase(op);
  auto isSlot = [&](OpOperand &use) {
    return llvm::any_of(update.boundary, [&](auto entry) {
      return use.getOwner() == block.getTerminator() &&
             use.getOperandNumber() == entry.second;
    });
  };
  for (Operation *op : llvm::reverse(ordered)) {
    if (!own.contains(op))
      continue;
    bool isForOwn = false, isForOthers = false;
    for (OpOperand &use : op->getUses()) {
      Operation *user = use.getOwner();
      isForOwn |= own.contains(user) || isSlot(use);
      if (isForOwn)
        break;
      // A norm (a scalar result) can read parts too.
      isForOthers |= ops.contains(user) && !own.contains(user) &&
                     !shapeOf(user->getResult(0)).empty();
    }
    if (!isForOwn && isForOthers)
      own.erase(op);
  }
}

FailureOr<UpdateOps> UpdateFinder::run() {
  readBoundary();
  for (auto gradient : block.getOps<graph::GradientOp>())
    if (failed(findParameter(gradient)))
      return failure();
  findOps();
  llvm::DenseSet<Operation *> owned;
  for (Update &update : result.updates) {
    collect(update);
    // An op belongs to one update, the first that finds it. Only uniform ops
    // may belong to several: each update makes its own copy.
    update.own.remove_if(
        [&](Operation *op) { return owned.contains(op) && !isUniform(op); });
    owned.insert(update.own.begin(), update.own.end());
  }
  for (Operation &op : block)
    if (ops.contains(&op) && !owned.contains(&op))
      result.shared.push_back(&op);
  return std::move(result);
}

FailureOr<UpdateOps> polyrank::sharding::findUpdates(func::FuncOp step) {
  return UpdateFinder(step).run();
}
