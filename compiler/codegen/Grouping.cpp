// Decides which ops of a block become one kernel.

#include "compiler/codegen/Grouping.h"

#include "compiler/codegen/Repeats.h"
#include "dialects/graph/Provenance.h"
#include "dialects/rank/Rank.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::codegen;

bool polyrank::codegen::isKernelOp(Operation *op) {
  if (auto constant = dyn_cast<graph::ConstantOp>(op))
    return isa<SplatElementsAttr>(constant.getValue());
  return isa_and_present<graph::GraphDialect>(op->getDialect()) &&
         op->getNumResults() != 0 && op->getNumRegions() == 0 &&
         !graph::isProduct(op);
}

bool polyrank::codegen::isFree(Operation *op) {
  return isa<graph::IotaOp, graph::SeedOp, graph::BroadcastOp,
             graph::ReshapeOp>(op) ||
         (isa<graph::ConstantOp>(op) && isKernelOp(op));
}

bool Grouping::isInside(Value value, const DenseSet<Operation *> &members) {
  Operation *op = value.getDefiningOp();
  if (!op || op->getBlock() != &block || stored.contains(op))
    return false;
  if (members.contains(op))
    return true;
  if (auto reshape = dyn_cast<graph::ReshapeOp>(op))
    return isInside(reshape.getInput(), members);
  return isFree(op);
}

SmallVector<Value> Grouping::inputsOf(ArrayRef<Operation *> ops) {
  DenseSet<Operation *> members(ops.begin(), ops.end());
  llvm::SetVector<Value> inputs;
  DenseSet<Operation *> visited;
  auto visit = [&](auto &self, Operation *op) -> void {
    if (!visited.insert(op).second)
      return;
    for (Value operand : op->getOperands()) {
      if (isInside(operand, members))
        self(self, operand.getDefiningOp());
      else
        inputs.insert(operand);
    }
  };
  for (Operation *op : ops)
    visit(visit, op);
  return inputs.takeVector();
}

Grouping::Grouping(Block &block, target::KernelTarget target, bool fuse)
    : block(block), target(target), measures(target) {
  findDead();
  findStored();
  number();
  if (fuse) {
    int count = candidates.size();
    for (int i = 0; i < count; ++i)
      assign(i);
    for (int i = 0; i < count; ++i)
      if (candidates[i].isAlive)
        recomputeCheapInputs(i);
    // Merge the groups that now read the same values.
    for (int i = 0; i < count; ++i)
      if (candidates[i].isAlive)
        assign(i);
  }
  finish();
}

/// Finds the ops that are not needed. They must not count as users: otherwise
/// their operands would be measured as outputs that kernels do not write.
void Grouping::findDead() {
  for (Operation &op : llvm::reverse(block)) {
    bool isNeeded = llvm::any_of(op.getUsers(), [&](Operation *user) {
      Operation *ancestor = block.findAncestorOpInBlock(*user);
      return ancestor && !dead.contains(ancestor);
    });
    if (isKernelOp(&op) && !isNeeded)
      dead.insert(&op);
  }
}

/// Finds reshapes that one set of loops cannot compute together with their
/// users, such as 6x4 to 8x3.
void Grouping::findStored() {
  for (Operation &op : block) {
    if (!isKernelOp(&op) || isa<graph::ReshapeOp>(op) || dead.contains(&op))
      continue;
    SmallVector<Operation *> reshapes;
    DenseSet<Operation *> visited;
    auto visit = [&](auto &self, Operation *user) -> void {
      for (Value operand : user->getOperands()) {
        Operation *producer = operand.getDefiningOp();
        if (!isInside(operand, {}) || !visited.insert(producer).second)
          continue;
        if (isa<graph::ReshapeOp>(producer))
          reshapes.push_back(producer);
        self(self, producer);
      }
    };
    visit(visit, &op);
    SmallVector<Value> inputs = inputsOf(&op), outputs(op.getResults());
    if (!reshapes.empty() && !measures.get({inputs, outputs}))
      stored.insert(reshapes.begin(), reshapes.end());
  }
}

bool Grouping::isNeededOutside(Value value, Operation *producer,
                               ArrayRef<int> groups) {
  for (Operation *user : value.getUsers()) {
    Operation *ancestor = block.findAncestorOpInBlock(*user);
    if (!ancestor)
      continue;
    if (auto found = holders.find(ancestor); found != holders.end()) {
      for (int holder : found->second)
        if (!llvm::is_contained(groups, holder) &&
            !llvm::is_contained(holders[producer], holder))
          return true;
      continue;
    }
    // An op that is stored reads its operands from memory.
    if (ancestor != user || !isKernelOp(user) || stored.contains(user))
      return true;
    for (Value result : user->getResults())
      if (isNeededOutside(result, producer, groups))
        return true;
  }
  return false;
}

SmallVector<Value> Grouping::outputsOf(ArrayRef<Operation *> ops,
                                       ArrayRef<int> groups) {
  SmallVector<Value> outputs;
  for (Operation *op : ops)
    if (llvm::is_contained(groups, owner.lookup(op)))
      for (Value result : op->getResults())
        if (isNeededOutside(result, op, groups))
          outputs.push_back(result);
  return outputs;
}

bool Grouping::uses(int group, Operation *producer) {
  bool found = false;
  forEachUser(producer, [&](Operation *user) {
    auto entry = holders.find(user);
    found |= entry != holders.end() && llvm::is_contained(entry->second, group);
  });
  return found;
}

/// Returns the union of both lists, sorted by position.
SmallVector<Operation *> Grouping::unite(ArrayRef<Operation *> x,
                                         ArrayRef<Operation *> y) {
  llvm::SetVector<Operation *> ops(x.begin(), x.end());
  ops.insert(y.begin(), y.end());
  SmallVector<Operation *> result = ops.takeVector();
  llvm::sort(result, [&](Operation *a, Operation *b) {
    return position[a] < position[b];
  });
  return result;
}

/// Returns true if an op adds a microbatch's part to a sum over microbatches.
static bool addsToSum(ArrayRef<Operation *> ops) {
  return llvm::any_of(ops, [](Operation *op) {
    return isa<graph::AddOp>(op) &&
           cast<RankedTensorType>(op->getResult(0).getType()).getRank() > 0 &&
           llvm::any_of(op->getOperands(), [](Value operand) {
             return operand.getDefiningOp() && rank::isSum(operand);
           });
  });
}

static bool isOfUpdate(ArrayRef<Operation *> ops) {
  return llvm::any_of(ops, [](Operation *op) {
    return graph::getMarkedPhase(op) == graph::Phase::Update;
  });
}

bool Grouping::readsOwnStored(ArrayRef<Operation *> ops) {
  if (stored.empty())
    return false;
  auto visit = [&](auto &self, Operation *op, bool isStored) -> bool {
    return llvm::any_of(op->getUsers(), [&](Operation *user) {
      if (user->getBlock() != &block || dead.contains(user))
        return false;
      if (isKernelOp(user) && isFree(user))
        return self(self, user, isStored || stored.contains(user));
      return isStored && llvm::is_contained(ops, user);
    });
  };
  return llvm::any_of(ops,
                      [&](Operation *op) { return visit(visit, op, false); });
}

bool Grouping::canMerge(int a, int b) {
  const auto &first = candidates[a].ops, &second = candidates[b].ops;
  // The last microbatch's part of a gradient is added as soon as it is
  // computed, in the buffer of the sum. If the add were fused with the update,
  // which comes later, both the part and the sum would be live until then.
  if ((addsToSum(first) && isOfUpdate(second)) ||
      (addsToSum(second) && isOfUpdate(first)))
    return false;
  if (repeatsForward(first, second))
    return false;
  if (std::abs(position[first.back()] - position[second.back()]) >
      target.getFusionDistance())
    return false;
  auto measure = [&](ArrayRef<Operation *> ops, ArrayRef<int> groups) {
    SmallVector<Value> inputs = inputsOf(ops), outputs = outputsOf(ops, groups);
    if (outputs.empty()) // all ops are dead: measure the last one as output
      outputs.push_back(ops.back()->getResult(0));
    return measures.get({inputs, outputs});
  };
  target::KernelMeasurePtr merged = measure(unite(first, second), {a, b});
  if (!merged || !isConvex(a, b) || readsOwnStored(unite(first, second)))
    return false;
  target::KernelMeasurePtr one = measure(first, {a}),
                           other = measure(second, {b});
  return one && other && target.isBetterAsOne(*merged, *one, *other);
}

bool Grouping::tryMerge(int a, int b) {
  if (a == b || !canMerge(a, b))
    return false;
  if (a > b)
    std::swap(a, b);
  joinInOrder(a, b);
  for (Operation *op : candidates[b].ops) {
    if (owner[op] == b)
      owner[op] = a;
    llvm::erase(holders[op], b);
    if (!llvm::is_contained(holders[op], a))
      holders[op].push_back(a);
  }
  candidates[a].ops = unite(candidates[a].ops, candidates[b].ops);
  candidates[b] = {{}, /*isAlive=*/false};
  return true;
}

/// The earlier groups that compute operands of `group`, then those that read
/// the same values; the latest first.
SmallVector<int> Grouping::relatedGroups(int group) {
  ArrayRef<Operation *> ops = candidates[group].ops;
  llvm::SetVector<int> producers, readers;
  auto add = [&](llvm::SetVector<int> &set, Operation *op) {
    auto found = owner.find(op);
    if (found != owner.end() && found->second != group &&
        position[op] < position[ops.back()])
      set.insert(found->second);
  };
  for (Value input : inputsOf(ops)) {
    Value source = input;
    while (auto reshape = source.getDefiningOp<graph::ReshapeOp>())
      source = reshape.getInput();
    if (Operation *producer = source.getDefiningOp())
      add(producers, producer);
    // Ops all over the program read scalars, so a shared scalar does not relate
    // them.
    if (cast<RankedTensorType>(source.getType()).getRank() != 0)
      for (Operation *user : source.getUsers())
        add(readers, user);
  }
  SmallVector<int> result = producers.takeVector();
  llvm::sort(result, std::greater<>());
  SmallVector<int> others = readers.takeVector();
  llvm::sort(others, std::greater<>());
  for (int other : others)
    if (!llvm::is_contained(result, other))
      result.push_back(other);
  return result;
}

void Grouping::assign(int group) {
  for (int related : relatedGroups(group))
    if (candidates[related].isAlive && tryMerge(related, group))
      group = std::min(related, group);
}

/// Returns true if recomputing the op is cheaper than reading its result.
static bool isCheap(Operation *op) { return op->hasTrait<graph::Cheap>(); }

static int64_t bytesOf(Value value) {
  return rank::getByteSize(value.getType());
}

bool Grouping::hasLoops(int group) {
  ArrayRef<Operation *> ops = candidates[group].ops;
  SmallVector<Value> inputs = inputsOf(ops), outputs = outputsOf(ops, group);
  return outputs.empty() || measures.get({inputs, outputs});
}

/// Lets the group compute `extended`: its own ops and copies of other groups'
/// ops. Removes the ops that their old group then no longer needs from it.
/// Undoes all this and returns false if one of these groups can then no longer
/// be computed by one set of loops.
bool Grouping::tryExtend(int group, ArrayRef<Operation *> extended) {
  struct Former {
    Operation *op;
    int owner;
    SmallVector<int, 1> holders;
  };
  SmallVector<Former> formerOps;
  llvm::MapVector<int, SmallVector<Operation *>> formerGroups;
  auto keep = [&](int index) {
    formerGroups.try_emplace(index, candidates[index].ops);
  };
  keep(group);
  for (Operation *op : extended)
    if (!llvm::is_contained(holders[op], group)) {
      formerOps.push_back({op, owner[op], holders[op]});
      holders[op].push_back(group);
    }
  candidates[group].ops.assign(extended.begin(), extended.end());
  // Users come after what they use.
  for (const Former &former : llvm::reverse(formerOps)) {
    Operation *op = former.op;
    bool isNeeded = uses(former.owner, op);
    for (Value result : op->getResults())
      isNeeded = isNeeded || isNeededOutside(result, op, former.owner);
    keep(former.owner);
    if (isNeeded)
      continue;
    llvm::erase(candidates[former.owner].ops, op);
    llvm::erase(holders[op], former.owner);
    owner[op] = group;
  }
  for (Value input : inputsOf(extended)) {
    while (auto reshape = input.getDefiningOp<graph::ReshapeOp>())
      input = reshape.getInput();
    if (auto found = owner.find(input.getDefiningOp()); found != owner.end())
      keep(found->second);
  }
  if (llvm::all_of(formerGroups,
                   [&](auto &entry) { return hasLoops(entry.first); })) {
    for (auto &[index, ops] : formerGroups)
      candidates[index].isAlive = !candidates[index].ops.empty();
    return true;
  }
  for (auto &[index, ops] : formerGroups)
    candidates[index].ops = ops;
  for (const Former &former : formerOps) {
    owner[former.op] = former.owner;
    holders[former.op] = former.holders;
  }
  return false;
}

/// Recomputes cheap ops of other groups if fewer bytes are then read and
/// written.
void Grouping::recomputeCheapInputs(int group) {
  auto &ops = candidates[group].ops;
  bool changed = true;
  while (changed) {
    changed = false;
    SmallVector<Value> inputs = inputsOf(ops);
    for (Value input : inputs) {
      // Find the chain of cheap ops that leads to values that must be read
      // anyway.
      Operation *producer = input.getDefiningOp();
      if (!producer || !owner.contains(producer) || !isCheap(producer))
        continue;
      SmallVector<Operation *> extended;
      int64_t bytesBefore = 0, after = 0;
      for (Value value : inputs)
        bytesBefore += bytesOf(value);
      // If nothing else needs the value, it is no longer written either.
      if (!isNeededOutside(input, producer, {group, owner[producer]}))
        bytesBefore += bytesOf(input);
      SmallVector<Operation *> added = {producer};
      for (int depth = 0; depth < 8; ++depth) {
        extended = unite(ops, added);
        after = 0;
        Operation *next = nullptr;
        for (Value value : inputsOf(extended)) {
          after += bytesOf(value);
          Operation *op = value.getDefiningOp();
          if (llvm::is_contained(inputs, value) || !op || !owner.contains(op))
            continue;
          // A value that no other group reads yet must be written for this one.
          if (!isNeededOutside(value, op, {owner[op]}))
            after += bytesOf(value);
          if (isCheap(op) && !next)
            next = op;
        }
        if (after < bytesBefore || !next)
          break;
        added.push_back(next);
      }
      if (after >= bytesBefore)
        continue;
      if (tryExtend(group, extended)) {
        changed = true;
        break;
      }
    }
  }
}

/// Computes the ops and outputs of each group, backward from the values that
/// ops outside of kernels need.
void Grouping::finish() {
  std::vector<llvm::SetVector<Value>> outputs(candidates.size());
  std::vector<DenseSet<Operation *>> members(candidates.size());
  std::vector<DenseSet<Operation *>> live(candidates.size());
  for (auto [candidate, set] : llvm::zip_equal(candidates, members))
    set.insert(candidate.ops.begin(), candidate.ops.end());

  SmallVector<Value> needed;
  DenseSet<Value> known;
  auto need = [&](Value value) {
    Operation *op = value.getDefiningOp();
    if (op && op->getBlock() == &block && isKernelOp(op) &&
        known.insert(value).second)
      needed.push_back(value);
  };
  SmallVector<std::pair<int, Operation *>> computed;
  auto compute = [&](int group, Operation *op) {
    if (live[group].insert(op).second)
      computed.push_back({group, op});
  };
  for (Operation &op : block)
    if (!isKernelOp(&op))
      op.walk([&](Operation *inner) {
        for (Value operand : inner->getOperands())
          need(operand);
      });
  while (!needed.empty() || !computed.empty()) {
    if (!computed.empty()) {
      auto [group, op] = computed.pop_back_val();
      for (Value operand : op->getOperands()) {
        if (isInside(operand, members[group]))
          compute(group, operand.getDefiningOp());
        else
          need(operand);
      }
      continue;
    }
    Value value = needed.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (isFree(op)) {
      placed.insert(op);
      for (Value input : op->getOperands())
        if (isa<graph::ReshapeOp>(op) || !isInside(input, {}))
          need(input);
        else
          for (Value outer : inputsOf(input.getDefiningOp()))
            need(outer);
      continue;
    }
    outputs[owner[op]].insert(value);
    compute(owner[op], op);
  }
  for (auto [i, candidate] : llvm::enumerate(candidates)) {
    if (outputs[i].empty())
      continue;
    Group group;
    for (Operation *op : candidate.ops)
      if (live[i].contains(op))
        group.ops.push_back(op);
    group.inputs = inputsOf(group.ops);
    for (Operation *op : group.ops)
      for (Value result : op->getResults())
        if (outputs[i].contains(result))
          group.outputs.push_back(result);
    groups.push_back(std::move(group));
  }
}
