// recompute: the backward recomputes what the forward would keep for it.

#include "compiler/sharding/Passes.h"
#include "compiler/sharding/RecomputeChoice.h"
#include "dialects/graph/Boundary.h"
#include "dialects/graph/Provenance.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;

namespace polyrank::sharding {
#define GEN_PASS_DEF_RECOMPUTE
#include "compiler/sharding/Passes.h.inc"
} // namespace polyrank::sharding

namespace {
/// Clones each op to be recomputed once, before the first op of the backward
/// that needs it.
class Rewriter {
public:
  Rewriter(Block &block, const graph::Phases &phases,
           const RecomputeChoice &choice)
      : block(block), phases(phases), choice(choice) {}

  void run();
  int64_t getFlops() const { return flops; }

private:
  void compute(Value value, Operation *user);
  void build(Operation *op, Operation *user);
  Value wait(Value value, Operation *user);

  Block &block;
  const graph::Phases &phases;
  const RecomputeChoice &choice;
  IRMapping again;
  /// Kept values, after the token for which their readers wait.
  IRMapping later;
  int64_t flops = 0;
};
} // namespace

/// The value, available only once the backward has reached `user`.
Value Rewriter::wait(Value value, Operation *user) {
  if (Value known = later.lookupOrNull(value))
    return known;
  OpBuilder builder(user);
  auto after = graph::AfterOp::create(builder, value.getLoc(), value,
                                      phases.findToken(user));
  graph::copyProvenance(user, after);
  later.map(value, after.getResult());
  return after.getResult();
}

/// Returns true if the value is an activation or an input, not a parameter or
/// state. Its memory can be released between forward and backward only if no
/// recomputed op reads it directly.
static bool isActivation(Value value) {
  if (value.getDefiningOp())
    return true;
  auto argument = cast<BlockArgument>(value);
  auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
  return !function || graph::Boundary(function).getArgument<graph::InputAttr>(
                          argument.getArgNumber());
}

void Rewriter::build(Operation *op, Operation *user) {
  OpBuilder builder(user);
  IRMapping operands;
  bool waits = false;
  for (Value operand : op->getOperands()) {
    Value mapped = operand;
    if (choice.isComputedAgain(operand))
      mapped = again.lookup(operand);
    else if (operand.getParentBlock() == &block && isActivation(operand) &&
             !(operand.getDefiningOp() &&
               operand.getDefiningOp()->getNumOperands() == 0))
      mapped = wait(operand, user);
    waits |= mapped != operand;
    operands.map(operand, mapped);
  }
  // An op on parameters alone has no operand to wait for, so its copy could
  // run, and its result be kept, from the start of the step.
  if (!waits)
    for (Value operand : op->getOperands())
      operands.map(operand, wait(operand, user));
  Operation *copy = builder.clone(*op, operands);
  for (auto [result, repeated] :
       llvm::zip_equal(op->getResults(), copy->getResults()))
    again.map(result, repeated);
  if (auto graphOp = dyn_cast<graph::GraphOp>(op))
    flops += graphOp.getCost().flops;
}

/// Clones the ops that recompute `value`, operands first. Not recursive, since
/// chains of ops are long.
void Rewriter::compute(Value value, Operation *user) {
  SmallVector<Operation *> open{value.getDefiningOp()};
  while (!open.empty()) {
    Operation *op = open.back();
    if (again.contains(op->getResult(0))) {
      open.pop_back();
      continue;
    }
    size_t known = open.size();
    for (Value operand : op->getOperands())
      if (choice.isComputedAgain(operand) && !again.contains(operand))
        open.push_back(operand.getDefiningOp());
    if (open.size() > known)
      continue;
    build(op, user);
    open.pop_back();
  }
}

void Rewriter::run() {
  SmallVector<Operation *> backward;
  for (Operation &op : block)
    if (phases.needsCotangent(&op))
      backward.push_back(&op);
  for (Operation *op : backward)
    for (OpOperand &slot : op->getOpOperands())
      if (choice.isComputedAgain(slot.get())) {
        compute(slot.get(), op);
        slot.set(again.lookup(slot.get()));
      }
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (op.use_empty() && isa<graph::GraphOp, ReshardOp>(op) &&
        isMemoryEffectFree(&op))
      op.erase();
}

namespace {
struct Recompute : sharding::impl::RecomputeBase<Recompute> {
  using RecomputeBase::RecomputeBase;

  void runOnOperation() override {
    if (!getOperation().isDeclaration() && failed(run(getOperation())))
      signalPassFailure();
  }

private:
  LogicalResult run(func::FuncOp step);
};
} // namespace

static std::string inKibibytes(int64_t bytes) {
  constexpr int64_t unit = 1024;
  return bytes < 10 * unit ? std::to_string(bytes) + " bytes"
                           : std::to_string(bytes / unit) + " KiB";
}

LogicalResult Recompute::run(func::FuncOp step) {
  FailureOr<RecomputePolicy> policy =
      RecomputePolicy::parse(what, gathers, [&] { return step.emitError(); });
  if (failed(policy))
    return failure();
  if (policy->kind == RecomputePolicy::None)
    return success();
  SmallVector<Block *> blocks;
  step.walk<WalkOrder::PostOrder>([&](graph::MicrobatchesOp region) {
    blocks.push_back(&region.getBody().front());
  });
  blocks.push_back(&step.getBody().front());
  llvm::DenseSet<size_t> matched;
  int64_t before = 0, after = 0, flops = 0;
  for (Block *block : blocks) {
    graph::Phases phases(step);
    RecomputeChoice choice(*block, phases, *policy);
    matched.insert(choice.getMatched().begin(), choice.getMatched().end());
    before += choice.getBytesBefore();
    after += choice.getBytesAfter();
    Rewriter rewriter(*block, phases, choice);
    rewriter.run();
    flops += rewriter.getFlops();
  }
  for (auto [i, pattern] : llvm::enumerate(policy->patterns))
    if (!matched.contains(i))
      return step.emitError("--recompute ")
             << pattern
             << ": no module of this name computes anything; polyrank-inspect "
                "PLAN --why names modules";
  step.emitRemark() << "of " << inKibibytes(before)
                    << " that each device would keep of a microbatch for its "
                       "backward, it keeps "
                    << inKibibytes(after) << ", and computes the rest again ("
                    << flops << " FLOPs of all devices; --recompute none)";
  return success();
}
