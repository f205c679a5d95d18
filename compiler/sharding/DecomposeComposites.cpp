// Replaces composites that propagation split on a composite factor by their
// parts, and lays the parts out between the layouts of their neighbours.

#include "compiler/cost/CostModel.h"
#include "compiler/sharding/Passes.h"
#include "compiler/sharding/WriteLayouts.h"
#include "dialects/graph/Parts.h"
#include "dialects/graph/Provenance.h"
#include "dialects/sharding/Constraint.h"
#include "support/ByteText.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;
using sharding::LayoutAttr;
using sharding::ReshardOp;

namespace polyrank::sharding {
#define GEN_PASS_DEF_DECOMPOSECOMPOSITES
#include "compiler/sharding/Passes.h.inc"
} // namespace polyrank::sharding

/// Returns the op if it is a reshard that propagation added around a whole
/// composite.
static ReshardOp getWrapper(Operation *op) {
  auto reshard = dyn_cast_if_present<ReshardOp>(op);
  return reshard && sharding::isMarkedComposite(reshard) ? reshard : nullptr;
}

/// Makes `instead` the token of each `graph.after` whose token is `value`. The
/// elements of a token are not read, so any value that is computed no earlier
/// will do.
static void waitFor(Value value, Value instead) {
  value.replaceUsesWithIf(instead, [&](OpOperand &use) {
    auto after = dyn_cast<graph::AfterOp>(use.getOwner());
    return after && &use == &after.getTokenMutable();
  });
}

namespace {

/// The composites of a function whose parts hold a tensor that is larger than
/// all operands and results, as attention's scores may be.
struct LargeParts {
  llvm::MapVector<StringRef, int64_t> counts; // by the name of the op
  int64_t bytes = 0;                          // the largest on a device
  std::string reason;                         // of the largest
};

} // namespace

static int64_t getMostBytes(ValueRange values) {
  int64_t most = 0;
  for (Value value : values)
    most = std::max(
        most, cost::getLocalBytes(cast<RankedTensorType>(value.getType())));
  return most;
}

static LogicalResult decompose(graph::CompositeOp composite,
                               LargeParts &large) {
  Operation *op = composite;
  sharding::MeshAttr mesh = sharding::getLayout(op->getResult(0)).getMesh();
  // Removes the reshards around the operands.
  for (OpOperand &slot : op->getOpOperands())
    if (ReshardOp wrapper = getWrapper(slot.get().getDefiningOp())) {
      slot.set(wrapper.getInputs().front());
      waitFor(wrapper->getResult(0), wrapper.getInputs().front());
      if (wrapper->use_empty())
        wrapper->erase();
    }

  int64_t most = getMostBytes(op->getOperands());
  Block *block = op->getBlock();
  Operation *before = op->getPrevNode();
  graph::ProvenanceCopier copier(op);
  OpBuilder builder(op, &copier);
  SmallVector<Value> values = graph::decompose(builder, composite);
  SmallVector<Operation *> parts;
  for (auto it = before ? std::next(before->getIterator()) : block->begin();
       &*it != op; ++it)
    parts.push_back(&*it);
  // Erases the parts that compute only unused results.
  llvm::SmallDenseSet<Value> used;
  for (auto [value, result] : llvm::zip_equal(values, op->getResults()))
    if (!result.use_empty())
      used.insert(value);
  SmallVector<Operation *> live;
  for (Operation *part : llvm::reverse(parts)) {
    bool isUsed = !part->use_empty() ||
                  llvm::any_of(part->getResults(), [&](Value result) {
                    return used.contains(result);
                  });
    if (isUsed)
      live.push_back(part);
    else
      part->erase();
  }
  parts.assign(live.rbegin(), live.rend());

  struct Output {
    Value value;    // the result, as the parts compute it
    Value replaced; // the composite's result, or its reshard's result
    ReshardOp wrapper;
  };
  SmallVector<Output> outputs;
  llvm::MapVector<Value, LayoutAttr> wanted;
  for (auto [value, result] : llvm::zip_equal(values, op->getResults())) {
    if (result.use_empty())
      continue;
    Output output{value, result, nullptr};
    for (Operation *user : result.getUsers())
      if (ReshardOp wrapper = getWrapper(user))
        waitFor(result, wrapper->getResult(0));
    if (result.hasOneUse())
      output.wrapper = getWrapper(*result.user_begin());
    if (output.wrapper)
      output.replaced = output.wrapper->getResult(0);
    wanted[value] = sharding::getLayout(output.replaced);
    most = std::max(most, getMostBytes(output.replaced));
    outputs.push_back(output);
  }

  StringRef reason = sharding::getCompositeReason(op);
  FailureOr<SuppliedValues> supplied = layOutParts(mesh, parts, wanted, reason);
  if (failed(supplied))
    return failure();
  int64_t largest = 0;
  for (Operation *part : parts)
    largest = std::max(largest, getMostBytes(part->getResults()));
  if (largest > most) {
    ++large.counts[op->getName().getStringRef()];
    if (largest > large.bytes) {
      large.bytes = largest;
      large.reason = reason.str();
    }
  }
  for (Output &output : outputs) {
    output.replaced.replaceAllUsesWith(supplied->lookup(output.value));
    if (output.wrapper)
      output.wrapper->erase();
  }
  op->erase();
  return success();
}

namespace {
struct DecomposeComposites
    : sharding::impl::DecomposeCompositesBase<DecomposeComposites> {
  using DecomposeCompositesBase::DecomposeCompositesBase;

  void runOnOperation() override {
    LargeParts large;
    // The parts of a composite may contain another composite.
    while (true) {
      SmallVector<graph::CompositeOp> composites;
      getOperation().walk([&](graph::CompositeOp op) {
        if (sharding::isMarkedComposite(op))
          composites.push_back(op);
      });
      if (composites.empty())
        break;
      for (graph::CompositeOp op : composites)
        if (failed(decompose(op, large)))
          return signalPassFailure();
    }
    if (!large.counts.empty())
      report(large);
  }

private:
  void report(const LargeParts &large) {
    InFlightDiagnostic remark = getOperation().emitRemark();
    llvm::interleaveComma(large.counts, remark, [&](const auto &entry) {
      remark << entry.second << " x " << entry.first;
    });
    remark << ": computed in parts, of which one has " << bytesText(large.bytes)
           << " on each device, since a dim is split that one call needs whole";
    if (!large.reason.empty())
      remark << " (" << large.reason << ")";
  }
};
} // namespace
