// join-stages: joins the numbers that the update needs from several stages, or
// from another stage.
//
// After the microbatches a stage works on its own parameters. It shares only
// numbers with other stages: the norm of all gradients, the count of targets, a
// factor. A sum (or maximum) of values from several stages becomes one sum for
// each stage, and a join of these. Any other number that a stage needs from
// another stage is joined alone, so that all stages have it, and each stage
// computes what follows from it. So is a number from which the next value of a
// state follows that all stages have, such as the norm that decides whether the
// step is skipped, even if only one stage has gradients.

#include "compiler/stages/Passes.h"
#include "compiler/stages/StageFlow.h"
#include "dialects/graph/Boundary.h"
#include "dialects/graph/Forward.h"
#include "dialects/graph/Parts.h"
#include "dialects/graph/Provenance.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::stages;
using sharding::ReductionKind;

namespace polyrank::stages {
#define GEN_PASS_DEF_JOINSTAGES
#include "compiler/stages/Passes.h.inc"
} // namespace polyrank::stages

/// The reduction of an op that combines two values in any order.
static std::optional<ReductionKind> getReduction(Operation *op) {
  if (isa<graph::AddOp>(op))
    return ReductionKind::Sum;
  if (isa<graph::MaxOp>(op))
    return ReductionKind::Max;
  if (isa<graph::MinOp>(op))
    return ReductionKind::Min;
  return std::nullopt;
}

namespace {
class Joiner {
public:
  explicit Joiner(func::FuncOp step)
      : step(step), body(step.getBody().front()), flow(step) {}

  LogicalResult run();

private:
  bool isInside(Operation *op) const;
  void collectLeaves(Operation *op, SmallVectorImpl<Value> &leaves);
  bool joinSum(Operation *root);
  void findNumbersOfAll();
  bool isNumberOfAll(Operation *op);
  LogicalResult resolve(Operation *op);
  Value getEverywhere(Value value);
  void keepOnStages();

  func::FuncOp step;
  Block &body;
  StageFlow flow;
  DenseMap<Value, Value> everywhere;
  /// The ops on numbers from which the next values of states follow that all
  /// stages have.
  DenseSet<Operation *> numbersOfAll;
};
} // namespace

void Joiner::findNumbersOfAll() {
  graph::Boundary boundary(step);
  SmallVector<Value> work;
  for (OpOperand &operand : body.getTerminator()->getOpOperands())
    if (auto replaced = boundary.getReplaced(operand.getOperandNumber());
        replaced && !flow.getStage(step.getArgument(*replaced)))
      work.push_back(operand.get());
  while (!work.empty()) {
    Value value = work.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (graph::getShape(value).empty() && op && op->getBlock() == &body &&
        numbersOfAll.insert(op).second)
      llvm::append_range(work, op->getOperands());
  }
}

/// Returns true if the op has one stage, and its result is to be joined for the
/// states that all stages have: sums are joined when they are complete.
bool Joiner::isNumberOfAll(Operation *op) {
  return numbersOfAll.contains(op) && op->getNumResults() == 1 &&
         flow.getStage(op->getResult(0)) &&
         llvm::none_of(op->getUsers(), [&](Operation *user) {
           return numbersOfAll.contains(user) && getReduction(user);
         });
}

/// Returns true if the op's only user is an op of the same kind, in the same
/// block: it is an inner node of a chain or tree.
bool Joiner::isInside(Operation *op) const {
  return op->getBlock() == &body && op->hasOneUse() &&
         op->user_begin()->getName() == op->getName() &&
         op->user_begin()->getBlock() == &body;
}

/// Collects the values that a chain or tree of one kind of op combines.
void Joiner::collectLeaves(Operation *op, SmallVectorImpl<Value> &leaves) {
  for (Value operand : op->getOperands()) {
    Operation *producer = operand.getDefiningOp();
    if (producer && producer->getName() == op->getName() && isInside(producer))
      collectLeaves(producer, leaves);
    else
      leaves.push_back(operand);
  }
}

/// Returns true if `root` combined values of several stages; it is then erased.
bool Joiner::joinSum(Operation *root) {
  SmallVector<Value> leaves;
  collectLeaves(root, leaves);
  llvm::MapVector<int64_t, Value> ofStage;
  Value ofAll;
  for (Value leaf : leaves)
    if (std::optional<int64_t> stage = flow.getStage(leaf))
      ofStage[*stage] = {};
  if (ofStage.size() < 2)
    return false;
  graph::ProvenanceCopier copier(root);
  OpBuilder builder(root, &copier);
  auto combine = [&](Value sum, Value value) -> Value {
    if (!sum || !value)
      return sum ? sum : value;
    OperationState state(root->getLoc(), root->getName(), {sum, value},
                         {sum.getType()});
    Operation *made = builder.create(state);
    flow.update(made);
    return made->getResult(0);
  };
  for (Value leaf : leaves) {
    std::optional<int64_t> stage = flow.getStage(leaf);
    Value &sum = stage ? ofStage[*stage] : ofAll;
    sum = combine(sum, leaf);
  }
  SmallVector<Value> parts;
  for (auto &[stage, sum] : ofStage)
    parts.push_back(sum);
  Value joined = pipeline::JoinOp::create(
      builder, root->getLoc(), parts[0].getType(), *getReduction(root), parts);
  root->getResult(0).replaceAllUsesWith(combine(joined, ofAll));
  flow.forget(root);
  root->erase();
  return true;
}

/// Returns `value` on all stages; null if it is neither a number nor computed
/// from numbers alone.
Value Joiner::getEverywhere(Value value) {
  if (!flow.getStage(value))
    return value;
  if (Value known = everywhere.lookup(value))
    return known;
  OpBuilder builder(step.getContext());
  builder.setInsertionPointAfterValue(value);
  Operation *producer = value.getDefiningOp();
  Value result;
  if (graph::getShape(value).empty()) {
    result = pipeline::JoinOp::create(builder, value.getLoc(), value.getType(),
                                      ReductionKind::Sum, ValueRange(value));
    if (producer)
      graph::copyProvenance(producer, result.getDefiningOp());
  } else if (producer && producer->getBlock() == &body && isPure(producer) &&
             isa<graph::GraphOp>(producer) &&
             !isa<pipeline::TransferOp>(producer)) {
    IRMapping mapping;
    for (Value operand : producer->getOperands()) {
      Value there = getEverywhere(operand);
      if (!there)
        return {};
      mapping.map(operand, there);
    }
    result = builder.clone(*producer, mapping)
                 ->getResult(cast<OpResult>(value).getResultNumber());
  } else {
    return {};
  }
  return everywhere[value] = result;
}

/// Replaces one of an op's operands from different stages by a value on all
/// stages.
LogicalResult Joiner::resolve(Operation *op) {
  std::optional<std::pair<Value, Value>> conflict = flow.findConflict(op);
  for (Value value : {conflict->first, conflict->second})
    if (Value there = getEverywhere(value)) {
      op->replaceUsesOfWith(value, there);
      return success();
    }
  return op->emitError("needs a tensor of stage ")
         << *flow.getStage(conflict->first) << " and one of stage "
         << *flow.getStage(conflict->second)
         << " once a step; only numbers are joined there";
}

/// The next value of a parameter or state is on the stage of that parameter or
/// state, even if all stages have come to have the value, such as an average of
/// joined numbers.
void Joiner::keepOnStages() {
  Operation *end = body.getTerminator();
  graph::Boundary boundary(step);
  OpBuilder builder(end);
  for (OpOperand &operand : end->getOpOperands()) {
    Value value = operand.get();
    auto replaced = boundary.getReplaced(operand.getOperandNumber());
    auto stage =
        replaced ? flow.getStage(step.getArgument(*replaced)) : std::nullopt;
    if (!stage || flow.getStage(value))
      continue;
    auto kept = pipeline::TransferOp::create(
        builder, value.getLoc(), value.getType(), value,
        /*from=*/nullptr, builder.getI64IntegerAttr(*stage));
    if (Operation *producer = value.getDefiningOp())
      graph::copyProvenance(producer, kept);
    operand.set(kept);
  }
}

/// Goes in program order: the operands of an op have been handled before it.
LogicalResult Joiner::run() {
  findNumbersOfAll();
  for (Operation &op : llvm::make_early_inc_range(body.without_terminator())) {
    if (op.use_empty() && isPure(&op))
      continue;
    bool isReduction =
        getReduction(&op) && graph::getShape(op.getResult(0)).empty();
    // A chain is handled at its end.
    if (isReduction && !isInside(&op) && joinSum(&op))
      continue;
    while (!(isReduction && isInside(&op)) && flow.findConflict(&op))
      if (failed(resolve(&op)))
        return failure();
    flow.update(&op);
    if (isNumberOfAll(&op)) {
      Value ofStage = op.getResult(0), joined = getEverywhere(ofStage);
      ofStage.replaceAllUsesExcept(joined, joined.getDefiningOp());
      flow.update(joined.getDefiningOp());
    }
  }
  keepOnStages();
  graph::eraseDeadOps(body);
  return verifyStages(step);
}

namespace {
struct JoinStages : stages::impl::JoinStagesBase<JoinStages> {
  void runOnOperation() override {
    auto step = getOperation().lookupSymbol<func::FuncOp>("step");
    if (!step) {
      getOperation().emitError("there is no function @step");
      return signalPassFailure();
    }
    if (failed(Joiner(step).run()))
      signalPassFailure();
  }
};
} // namespace
