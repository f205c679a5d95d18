// form-loops: lowers scans to loops of commands.

#include "compiler/lowering/Passes.h"
#include "compiler/target/Target.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/Provenance.h"
#include "dialects/rank/Rank.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::lowering;

namespace polyrank::lowering {
#define GEN_PASS_DEF_FORMLOOPS
#include "compiler/lowering/Passes.h.inc"
} // namespace polyrank::lowering

/// Which results are read: a stack by other ops, a carried value also by an
/// iteration that computes something else with it.
static SmallVector<bool> findRead(graph::ScanOp scan) {
  graph::ScanYieldOp yield = scan.getYield();
  unsigned numStacks = scan.getNumStacks();
  SmallVector<bool> isRead;
  for (Value result : scan.getResults())
    isRead.push_back(!result.use_empty());
  llvm::DenseSet<Value> needed;
  SmallVector<Value> work;
  auto need = [&](Value value) {
    if (needed.insert(value).second)
      work.push_back(value);
  };
  for (auto [value, read] : llvm::zip_equal(yield.getOperands(), isRead))
    if (read)
      need(value);
  while (!work.empty()) {
    Value value = work.pop_back_val();
    if (Operation *op = value.getDefiningOp()) {
      for (Value operand : op->getOperands())
        need(operand);
      continue;
    }
    auto carried = scan.getCarried();
    auto found = llvm::find(carried, value);
    if (found == carried.end())
      continue;
    unsigned number = numStacks + (found - carried.begin());
    isRead[number] = true;
    need(yield->getOperand(number));
  }
  return isRead;
}

/// Replaces a scan of one iteration by its body.
static void inlineOnly(graph::ScanOp scan, OpBuilder &builder) {
  IRMapping mapping;
  Location location = scan.getLoc();
  for (auto [argument, of] : llvm::zip_equal(scan.getElements(), scan.getOf()))
    mapping.map(argument, graph::ReshapeOp::create(builder, location,
                                                   argument.getType(), of)
                              .getResult());
  mapping.map(scan.getCarried(), scan.getCarry());
  mapping.map(scan.getUsed(), scan.getUses());
  for (Operation &op : scan.getBody().front().without_terminator())
    builder.clone(op, mapping);
  for (auto [result, value] :
       llvm::zip_equal(scan.getResults(), scan.getYield().getOperands())) {
    Value given = mapping.lookup(value);
    if (given.getType() != result.getType())
      given =
          graph::ReshapeOp::create(builder, location, result.getType(), given);
    result.replaceAllUsesWith(given);
  }
}

/// Transposes matrices that all iterations multiply with once, before the loop,
/// where the target says that this is better.
static void transposeFactors(graph::ScanOp scan, target::LibraryTarget target,
                             OpBuilder &builder) {
  for (auto [argument, matrix] :
       llvm::zip_equal(SmallVector<BlockArgument>(scan.getUsed()),
                       SmallVector<Value>(scan.getUses()))) {
    BlockArgument transposed;
    for (OpOperand &use : llvm::make_early_inc_range(argument.getUses())) {
      auto product = dyn_cast<graph::MatmulOp>(use.getOwner());
      if (!product || use.getOperandNumber() != 1 ||
          product.getRhs().getType().getRank() != 2 ||
          product.getRhsContract().size() != 1 ||
          !target.isBetterTransposed(product, scan.getCount()))
        continue;
      if (!transposed) {
        builder.setInsertionPoint(scan);
        Value outside = graph::TransposeOp::create(
            builder, scan.getLoc(), matrix, ArrayRef<int64_t>{1, 0});
        scan.getUsesMutable().append(outside);
        transposed =
            scan.getBody().addArgument(outside.getType(), argument.getLoc());
      }
      use.set(transposed);
      product.setRhsContract(1 - product.getRhsContract()[0]);
    }
  }
}

/// `target` is null if there is no library: form-gemms refuses products then.
static void formLoop(graph::ScanOp scan, target::LibraryTarget target) {
  graph::ProvenanceCopier provenance(scan);
  OpBuilder builder(scan, &provenance);
  if (scan.getCount() == 1) {
    inlineOnly(scan, builder);
    scan.erase();
    return;
  }
  if (target)
    transposeFactors(scan, target, builder);
  SmallVector<bool> isRead = findRead(scan);
  unsigned numStacks = scan.getNumStacks();
  // The remaining arguments and operands.
  Block &body = scan.getBody().front();
  graph::ScanYieldOp yield = scan.getYield();
  SmallVector<Value> yielded, replaced, carry, of, uses;
  SmallVector<Type> types;
  for (auto [i, value] : llvm::enumerate(yield.getOperands()))
    if (isRead[i]) {
      yielded.push_back(value);
      replaced.push_back(scan.getResult(i));
      types.push_back(scan.getResult(i).getType());
      if (i >= numStacks)
        carry.push_back(scan.getCarry()[i - numStacks]);
    }
  builder.setInsertionPointToEnd(&body);
  auto end = rank::YieldOp::create(builder, yield.getLoc(), yielded);
  yield.erase();
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (&op != end && isOpTriviallyDead(&op))
      op.erase();
  llvm::BitVector unused(body.getNumArguments());
  auto keepUsed = [&](Block::BlockArgListType arguments, ValueRange operands,
                      SmallVector<Value> &kept) {
    for (auto [argument, operand] : llvm::zip_equal(arguments, operands))
      if (argument.use_empty())
        unused.set(argument.getArgNumber());
      else
        kept.push_back(operand);
  };
  keepUsed(scan.getElements(), scan.getOf(), of);
  keepUsed(scan.getUsed(), scan.getUses(), uses);
  for (BlockArgument argument : scan.getCarried())
    if (!isRead[numStacks + argument.getArgNumber() - scan.getOf().size()])
      unused.set(argument.getArgNumber());
  builder.setInsertionPoint(scan);
  auto loop = rank::LoopOp::create(builder, scan.getLoc(), types,
                                   scan.getCount(), of, carry, uses,
                                   scan.getReversed(), /*buffers=*/nullptr);
  body.eraseArguments(unused);
  loop.getBody().takeBody(scan.getBody());
  for (auto [from, to] : llvm::zip_equal(replaced, loop.getResults()))
    from.replaceAllUsesWith(to);
  scan.erase();
}

namespace {
struct FormLoopsPass : lowering::impl::FormLoopsBase<FormLoopsPass> {
  void runOnOperation() override {
    SmallVector<graph::ScanOp> scans;
    getOperation().walk([&](graph::ScanOp scan) { scans.push_back(scan); });
    if (scans.empty())
      return;
    auto target = target::getTarget(getOperation());
    if (failed(target))
      return signalPassFailure();
    auto library = dyn_cast<target::LibraryTarget>(Attribute(*target));
    // The readers of a scan come after it.
    for (graph::ScanOp scan : llvm::reverse(scans)) {
      if (scan.use_empty())
        scan.erase();
      else
        formLoop(scan, library);
    }
  }
};
} // namespace
