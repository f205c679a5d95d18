// form-kernels: groups the remaining graph ops into kernels.

#include <queue>

#include "compiler/codegen/Grouping.h"
#include "compiler/codegen/LongSums.h"
#include "compiler/codegen/Passes.h"
#include "dialects/graph/Provenance.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/StringExtras.h"

namespace polyrank::codegen {
#define GEN_PASS_DEF_FORMKERNELS
#include "compiler/codegen/Passes.h.inc"
} // namespace polyrank::codegen

using namespace mlir;
using namespace polyrank;
using namespace polyrank::codegen;

namespace {

class FormKernels : public codegen::impl::FormKernelsBase<FormKernels> {
public:
  using FormKernelsBase::FormKernelsBase;
  void runOnOperation() override;

private:
  void accumulateScatters(func::FuncOp function);
  void formInBlock(Block &block);
  /// Stores constants that no kernel computes in the plan.
  void storeConstants(func::FuncOp function);
  /// Replaces a group by a launch.
  rank::LaunchOp launch(const Group &group, OpBuilder &builder);
  /// The kernel of a group; equal groups share a kernel.
  rank::KernelOp getKernel(const Group &group);

  target::KernelTarget target;
  llvm::StringMap<rank::KernelOp> kernels;
  llvm::StringMap<int> names;
};

} // namespace

/// Makes the other summand of a scatter_add its initial value: a large table,
/// often the gradient of a tied embedding, is then neither filled with zeros
/// nor read again.
void FormKernels::accumulateScatters(func::FuncOp function) {
  SmallVector<graph::ScatterAddOp> scatters;
  function.walk([&](graph::ScatterAddOp op) { scatters.push_back(op); });
  for (graph::ScatterAddOp op : scatters) {
    auto sum = op->hasOneUse() ? dyn_cast<graph::AddOp>(*op->user_begin())
                               : graph::AddOp();
    if (!sum || op.getInit() || sum->getBlock() != op->getBlock())
      continue;
    Value other = sum.getLhs() == op.getResult() ? sum.getRhs() : sum.getLhs();
    if (Operation *producer = other.getDefiningOp();
        producer && isFree(producer))
      continue;
    OpBuilder builder(sum);
    auto into = graph::ScatterAddOp::create(
        builder, op.getLoc(), op.getResult().getType(), op.getIndices(),
        op.getUpdates(), other, op.getAxis(), op.getBatchDims());
    into->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    sum.getResult().replaceAllUsesWith(into.getResult());
    sum->erase();
    op->erase();
  }
}

/// Builds the body of a kernel for `ops`. `mapping` already has the inputs.
static void cloneInto(OpBuilder &builder, ArrayRef<Operation *> ops,
                      IRMapping &mapping) {
  auto clone = [&](auto &self, Operation *op) -> void {
    if (mapping.contains(op->getResult(0)))
      return;
    for (Value operand : op->getOperands())
      if (!mapping.contains(operand))
        self(self, operand.getDefiningOp());
    Operation *copy = builder.clone(*op, mapping);
    // Provenance must not make kernels different.
    for (NamedAttribute attribute :
         llvm::to_vector(copy->getDiscardableAttrs()))
      copy->removeDiscardableAttr(attribute.getName());
    copy->setLoc(builder.getUnknownLoc());
  };
  for (Operation *op : ops)
    clone(clone, op);
}

/// The kernel's name: its last ops, without repetition. The prefix
/// distinguishes it from C functions, which LLVM knows by name.
static std::string describe(const Group &group) {
  llvm::SetVector<StringRef> words;
  for (Operation *op : group.ops)
    words.insert(op->getName().stripDialect());
  return "kernel." + llvm::join(words.getArrayRef().take_back(4), "_");
}

rank::KernelOp FormKernels::getKernel(const Group &group) {
  MLIRContext *context = &getContext();
  SmallVector<Type> inputs, outputs;
  for (Value input : group.inputs)
    inputs.push_back(input.getType());
  for (Value output : group.outputs)
    outputs.push_back(output.getType());
  Location location = group.ops.back()->getLoc();
  OpBuilder builder(context);
  builder.setInsertionPointToStart(getOperation().getBody());
  auto kernel = rank::KernelOp::create(
      builder, location, "kernel", builder.getFunctionType(inputs, outputs));
  Block *body = builder.createBlock(
      &kernel.getBody(), {}, inputs,
      SmallVector<Location>(inputs.size(), builder.getUnknownLoc()));
  IRMapping mapping;
  mapping.map(group.inputs, body->getArguments());
  cloneInto(builder, group.ops, mapping);
  SmallVector<Value> results;
  for (Value output : group.outputs)
    results.push_back(mapping.lookup(output));
  rank::ReturnOp::create(builder, builder.getUnknownLoc(), results);

  std::string text;
  llvm::raw_string_ostream os(text);
  kernel->print(os, OpPrintingFlags().useLocalScope().assumeVerified());
  auto [entry, isNew] = kernels.try_emplace(text, kernel);
  if (!isNew) {
    kernel->erase();
    return entry->second;
  }
  std::string name = describe(group);
  int number = names[name]++;
  kernel.setSymName(number ? name + "_" + std::to_string(number) : name);
  return kernel;
}

rank::LaunchOp FormKernels::launch(const Group &group, OpBuilder &builder) {
  rank::KernelOp kernel = getKernel(group);
  SmallVector<Type> outputs;
  for (Value output : group.outputs)
    outputs.push_back(output.getType());
  SmallVector<Location> locations;
  for (Operation *op : group.ops)
    locations.push_back(op->getLoc());
  auto launch =
      rank::LaunchOp::create(builder, builder.getFusedLoc(locations), outputs,
                             FlatSymbolRefAttr::get(kernel), group.inputs,
                             /*buffers=*/nullptr);
  graph::copyProvenance(group.ops, launch);
  return launch;
}

/// Orders the ops of a block so that each comes after those that it uses: by
/// `rank`, but never later than its first user is due. Ops that are not in
/// `movable` keep their order.
static void sortBlock(Block &block, const DenseMap<Operation *, int> &rank,
                      const DenseSet<Operation *> &movable) {
  DenseMap<Operation *, int> due, waits;
  DenseMap<Operation *, SmallVector<Operation *>> users;
  Operation *previous = nullptr;
  SmallVector<Operation *> ops;
  for (Operation &op : block) {
    ops.push_back(&op);
    due[&op] = rank.lookup(&op);
  }
  auto addEdge = [&](Operation *from, Operation *to) {
    users[from].push_back(to);
    ++waits[to];
  };
  for (Operation *op : ops) {
    op->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (Operation *from = operand.getDefiningOp();
            from && from->getBlock() == &block)
          addEdge(from, op);
    });
    if (movable.contains(op))
      continue;
    if (previous)
      addEdge(previous, op);
    previous = op;
  }
  // Due dates propagate from users to operands; a depth-first post-order visits
  // users first.
  DenseSet<Operation *> visited;
  for (Operation *root : ops) {
    SmallVector<std::pair<Operation *, size_t>> stack = {{root, 0}};
    if (!visited.insert(root).second)
      continue;
    while (!stack.empty()) {
      auto &[op, next] = stack.back();
      if (next < users[op].size()) {
        Operation *user = users[op][next++];
        if (visited.insert(user).second)
          stack.push_back({user, 0});
        continue;
      }
      for (Operation *user : users[op])
        due[op] = std::min(due[op], due[user]);
      stack.pop_back();
    }
  }
  using Entry = std::tuple<int, int, Operation *>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  for (Operation *op : ops)
    if (waits[op] == 0)
      ready.push({due[op], rank.lookup(op), op});
  while (!ready.empty()) {
    Operation *op = std::get<Operation *>(ready.top());
    ready.pop();
    op->moveBefore(&block, block.end());
    for (Operation *user : users[op])
      if (--waits[user] == 0)
        ready.push({due[user], rank.lookup(user), user});
  }
}

void FormKernels::formInBlock(Block &block) {
  for (Operation &op : block)
    for (Region &region : op.getRegions())
      for (Block &inner : region)
        formInBlock(inner);

  Grouping grouping(block, target, fuse);
  DenseMap<Operation *, int> order;
  int next = 0;
  for (Operation &op : block)
    order[&op] = next++;
  OpBuilder builder(&getContext());
  builder.setInsertionPointToEnd(&block);
  if (block.mightHaveTerminator())
    builder.setInsertionPoint(block.getTerminator());

  DenseSet<Operation *> made;
  SmallVector<std::pair<Value, Value>> replacements;
  for (const Group &group : grouping.groups) {
    rank::LaunchOp op = launch(group, builder);
    order[op] = order[group.ops.back()];
    made.insert(op);
    for (auto [from, to] : llvm::zip_equal(group.outputs, op.getResults()))
      replacements.push_back({from, to});
  }
  // Free ops outside of kernels: views, constants, and kernels that only fill.
  for (Operation *op : grouping.placed) {
    Operation *placed = nullptr;
    builder.setInsertionPoint(op);
    if (auto reshape = dyn_cast<graph::ReshapeOp>(op)) {
      placed = rank::ViewOp::create(builder, op->getLoc(), op->getResultTypes(),
                                    reshape.getInput());
    } else if (isa<graph::ConstantOp>(op)) {
      placed = builder.clone(*op);
    } else {
      Group group{{op}, grouping.inputsOf(op), {op->getResult(0)}};
      placed = launch(group, builder);
    }
    order[placed] = order[op];
    made.insert(placed);
    replacements.push_back({op->getResult(0), placed->getResult(0)});
  }
  for (auto [from, to] : replacements)
    from.replaceAllUsesWith(to);
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isKernelOp(&op) && !made.contains(&op)) {
      op.erase();
    }
  sortBlock(block, order, made);
}

void FormKernels::storeConstants(func::FuncOp function) {
  function.walk([&](graph::ConstantOp op) {
    OpBuilder builder(op);
    op.replaceAllUsesWith(
        rank::ConstantOp::create(builder, op.getLoc(), op.getResult().getType(),
                                 op.getValue(), /*buffers=*/nullptr)
            .getResult());
    op.erase();
  });
}

void FormKernels::runOnOperation() {
  kernels.clear();
  names.clear();
  auto found = target::getKernelTarget(getOperation());
  if (failed(found))
    return signalPassFailure();
  target = *found;
  for (auto function : llvm::to_vector(getOperation().getOps<func::FuncOp>())) {
    graph::decomposeComposites(function, [](Operation *) { return true; });
    if (failed(splitLongSums(function, target)))
      return signalPassFailure();
    accumulateScatters(function);
    for (Block &block : function.getBody())
      formInBlock(block);
    storeConstants(function);
  }
}
