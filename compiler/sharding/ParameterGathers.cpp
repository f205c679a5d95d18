// ZeRO stage 3: gathers parameters, of which devices store parts, where they
// are used.

#include "compiler/sharding/ParameterGathers.h"

#include "dialects/graph/NamePattern.h"
#include "dialects/graph/Provenance.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;

FailureOr<GatherPolicy>
GatherPolicy::parse(StringRef text,
                    llvm::function_ref<InFlightDiagnostic()> emitError) {
  GatherPolicy policy;
  if (text == "step")
    policy.oncePerStep = true;
  if (text == "use" || text == "step")
    return policy;
  if (!text.consume_front("keep=")) {
    emitError() << "--zero-gather " << text
                << ": there are use, step and keep=PATTERN[,PATTERN]";
    return failure();
  }
  auto patterns = graph::splitPatterns(text);
  if (!patterns) {
    emitError() << "--zero-gather keep=" << text << ": "
                << patterns.error().message;
    return failure();
  }
  policy.kept = std::move(*patterns);
  return policy;
}

/// Returns true if the op only moves elements of its one operand.
static bool isMovement(Operation *op) {
  return op->getNumOperands() == 1 && op->getNumResults() == 1 &&
         isa<ReshardOp, graph::ReshapeOp, graph::TransposeOp, graph::SliceOp>(
             op);
}

ParameterGathers::ParameterGathers(func::FuncOp step, GatherPolicy policy)
    : step(step), policy(std::move(policy)), phases(step) {}

void ParameterGathers::collect(OpOperand &use, SmallVector<Operation *> chain,
                               SmallVectorImpl<Use> &leaves) {
  Operation *owner = use.getOwner();
  if (!isMovement(owner)) {
    leaves.push_back({&use, std::move(chain)});
    return;
  }
  chain.push_back(owner);
  for (OpOperand &next : owner->getResult(0).getUses())
    collect(next, chain, leaves);
}

void ParameterGathers::gatherFor(Value part, const TensorParts &parts,
                                 ArrayRef<Use> uses, Operation *first,
                                 bool isBackward) {
  // The gather belongs to the module and phase of its first user.
  graph::ProvenanceCopier copier(first);
  OpBuilder builder(first, &copier);
  Value source = part;
  if (Value token = isBackward ? phases.findToken(first) : Value())
    part = graph::AfterOp::create(builder, part.getLoc(), part.getType(), part,
                                  token);
  IRMapping whole;
  whole.map(source, parts.gather(builder, part, parts.getWholeType()));
  for (const Use &use : uses) {
    for (Operation *op : use.chain)
      if (!whole.contains(op->getResult(0)))
        builder.clone(*op, whole);
    use.operand->set(whole.lookup(use.operand->get()));
  }
}

void ParameterGathers::gather(BlockArgument parameter, const TensorParts &parts,
                              ArrayRef<OpOperand *> given) {
  // A device converts its part, so that the elements move in the type in which
  // they are used.
  SmallVector<OpOperand *> uses;
  for (OpOperand *use : given) {
    auto convert = dyn_cast<graph::ConvertOp>(use->getOwner());
    if (!convert) {
      uses.push_back(use);
      continue;
    }
    // Before the gather, which is outside of the microbatches.
    if (policy.oncePerStep)
      convert->moveBefore(
          step.getBody().front().findAncestorOpInBlock(*convert));
    Value part = convert.getResult();
    part.setType(parts.getPartType(getElementTypeOrSelf(part.getType()),
                                   Fill::Undefined));
    SmallVector<OpOperand *> converted;
    for (OpOperand &next : part.getUses())
      converted.push_back(&next);
    gatherUses(parameter, part, parts, converted);
  }
  gatherUses(parameter, parameter, parts, uses);
}

void ParameterGathers::gatherUses(BlockArgument parameter, Value part,
                                  const TensorParts &parts,
                                  ArrayRef<OpOperand *> given) {
  SmallVector<Use> leaves;
  llvm::SetVector<Operation *> moving;
  for (OpOperand *use : given)
    collect(*use, {}, leaves);
  for (const Use &use : leaves)
    moving.insert_range(use.chain);

  std::string name = graph::Boundary(step).getName(parameter.getArgNumber());
  bool isKept = false;
  for (auto [i, pattern] : llvm::enumerate(policy.kept))
    if (graph::matchesName(pattern, name)) {
      isKept = true;
      matched.insert(i);
    }
  llvm::MapVector<std::pair<Block *, int>, SmallVector<Use>> groups;
  Block *entry = &step.getBody().front();
  for (const Use &use : leaves) {
    Operation *owner = use.operand->getOwner();
    Block *block = policy.oncePerStep ? entry : owner->getBlock();
    bool isSecond = !policy.oncePerStep && !isKept &&
                    phases.getPhase(owner) != graph::Phase::Forward;
    groups[{block, isSecond}].push_back(use);
  }
  for (auto &[key, uses] : groups) {
    auto [block, isSecond] = key;
    Operation *first = nullptr;
    for (const Use &use : uses) {
      Operation *owner = block->findAncestorOpInBlock(*use.operand->getOwner());
      if (!first || owner->isBeforeInBlock(first))
        first = owner;
    }
    gatherFor(part, parts, uses, first, isSecond);
  }
  for (Operation *op : llvm::reverse(moving.getArrayRef()))
    if (op->use_empty())
      op->erase();
}

LogicalResult ParameterGathers::checkPatterns() {
  for (auto [i, pattern] : llvm::enumerate(policy.kept))
    if (!matched.contains(i))
      return step.emitError("--zero-gather keep=")
             << pattern << ": no parameter of this name is kept in parts";
  return success();
}
