// Which ops of a block become one kernel.

#include "compiler/codegen/Grouping.h"

#include "compiler/codegen/Schedule.h"
#include "dialects/rank/Rank.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::codegen;

/// Ops of one group lie at most this far apart in the block, so that fusion
/// does not keep values alive for long.
static constexpr int maxDistance = 256;
/// Larger kernels cost more to compile than they save.
static constexpr size_t maxNodes = 256;

bool polyrank::codegen::isKernelOp(Operation *op) {
  if (auto constant = dyn_cast<graph::ConstantOp>(op))
    return isa<SplatElementsAttr>(constant.getValue());
  return isa_and_present<graph::GraphDialect>(op->getDialect()) &&
         op->getNumResults() != 0 && op->getNumRegions() == 0 &&
         !isa<graph::MatmulOp>(op);
}

bool polyrank::codegen::isFree(Operation *op) {
  return isa<graph::IotaOp, graph::SeedOp, graph::BroadcastOp,
             graph::ReshapeOp>(op) ||
         (isa<graph::ConstantOp>(op) && isKernelOp(op));
}

/// Whether a value comes out of the kernel of `members`.
static bool isInside(Value value, const DenseSet<Operation *> &members,
                     Block *block) {
  Operation *op = value.getDefiningOp();
  if (!op || op->getBlock() != block)
    return false;
  if (members.contains(op))
    return true;
  if (auto reshape = dyn_cast<graph::ReshapeOp>(op))
    return isInside(reshape.getInput(), members, block);
  return isFree(op);
}

SmallVector<Value> polyrank::codegen::collectInputs(ArrayRef<Operation *> ops,
                                                    Block *block) {
  DenseSet<Operation *> members(ops.begin(), ops.end());
  llvm::SetVector<Value> inputs;
  DenseSet<Operation *> visited;
  auto visit = [&](auto &self, Operation *op) -> void {
    if (!visited.insert(op).second)
      return;
    for (Value operand : op->getOperands()) {
      if (isInside(operand, members, block))
        self(self, operand.getDefiningOp());
      else
        inputs.insert(operand);
    }
  };
  for (Operation *op : ops)
    visit(visit, op);
  return inputs.takeVector();
}

Grouping::Grouping(Block &block, bool fuse) : block(block) {
  number();
  for (Operation &op : block) {
    if (!isKernelOp(&op) || isFree(&op))
      continue;
    owner[&op] = candidates.size();
    candidates.push_back({{&op}});
    if (fuse)
      assign(&op);
  }
  if (fuse)
    for (int i = 0, n = candidates.size(); i < n; ++i)
      if (candidates[i].isAlive)
        recomputeCheapInputs(i);
  finish();
}

void Grouping::number() {
  int next = 0;
  for (Operation &op : block)
    position[&op] = next++;
}

SmallVector<Value> Grouping::inputsOf(ArrayRef<Operation *> ops) {
  return collectInputs(ops, &block);
}

bool Grouping::isNeededOutside(Value value, const DenseSet<Operation *> &ops) {
  for (Operation *user : value.getUsers()) {
    Operation *ancestor = block.findAncestorOpInBlock(*user);
    if (!ancestor || ops.contains(ancestor))
      continue;
    if (ancestor != user || !isKernelOp(user) || !isFree(user))
      return true;
    for (Value result : user->getResults())
      if (isNeededOutside(result, ops))
        return true;
  }
  return false;
}

SmallVector<Value> Grouping::outputsOf(ArrayRef<Operation *> ops) {
  DenseSet<Operation *> members(ops.begin(), ops.end());
  SmallVector<Value> outputs;
  for (Operation *op : ops)
    for (Value result : op->getResults())
      if (isNeededOutside(result, members))
        outputs.push_back(result);
  return outputs;
}

void Grouping::forEachUser(ArrayRef<Operation *> ops,
                           function_ref<void(Operation *)> visit) {
  for (Operation *op : ops)
    for (Operation *user : op->getUsers()) {
      Operation *ancestor = block.findAncestorOpInBlock(*user);
      if (!ancestor)
        continue;
      if (isKernelOp(ancestor) && isFree(ancestor))
        forEachUser(ancestor, visit);
      else
        visit(ancestor);
    }
}

/// No op outside of both uses one and is used by the other. Ops outside keep
/// their order among themselves, so that collectives do.
bool Grouping::isConvex(int a, int b) {
  int last = 0;
  for (int group : {a, b})
    last = std::max(last, position[candidates[group].ops.back()]);
  // Nodes are groups (>= 0) or ops outside (-1 - position).
  auto nodeOf = [&](Operation *op) {
    auto found = owner.find(op);
    return found == owner.end() ? -1 - position[op] : found->second;
  };
  DenseSet<int> visited;
  SmallVector<int> stack;
  bool reached = false;
  auto follow = [&](ArrayRef<Operation *> ops, bool isFirst) {
    forEachUser(ops, [&](Operation *user) {
      int node = nodeOf(user);
      if (node == a || node == b) {
        reached |= !isFirst;
        return;
      }
      int first =
          node >= 0 ? position[candidates[node].ops.front()] : position[user];
      if (first < last && visited.insert(node).second)
        stack.push_back(node);
    });
  };
  follow(candidates[a].ops, /*isFirst=*/true);
  follow(candidates[b].ops, /*isFirst=*/true);
  SmallVector<Operation *> inOrder;
  while (!stack.empty() && !reached) {
    int node = stack.pop_back_val();
    if (node >= 0) {
      follow(candidates[node].ops, false);
      continue;
    }
    Operation *op = &*std::next(block.begin(), -1 - node);
    follow(op, false);
    // The next op outside comes after this one.
    for (Operation *next = op->getNextNode(); next; next = next->getNextNode())
      if (!isKernelOp(next)) {
        int other = nodeOf(next);
        if (position[next] < last && visited.insert(other).second)
          stack.push_back(other);
        break;
      }
  }
  return !reached;
}

/// Whether the loops of `ops` exist; what they cost.
static std::optional<std::pair<Loops, Schedule>>
loopsOf(ArrayRef<Value> inputs, ArrayRef<Value> outputs) {
  std::string reason;
  FailureOr<Loops> loops = buildLoops({inputs, outputs}, reason);
  if (failed(loops))
    return std::nullopt;
  Schedule schedule = scheduleLoops(*loops);
  return std::make_pair(std::move(*loops), schedule);
}

bool Grouping::canMerge(int a, int b) {
  const auto &first = candidates[a].ops, &second = candidates[b].ops;
  if (std::abs(position[first.back()] - position[second.back()]) > maxDistance)
    return false;
  if (!isConvex(a, b))
    return false;
  auto measure = [&](ArrayRef<Operation *> ops) {
    SmallVector<Value> inputs = inputsOf(ops), outputs = outputsOf(ops);
    if (outputs.empty()) // dead code computes its last op
      outputs.push_back(ops.back()->getResult(0));
    return loopsOf(inputs, outputs);
  };
  SmallVector<Operation *> both(first);
  both.append(second.begin(), second.end());
  llvm::sort(both, [&](Operation *x, Operation *y) {
    return position[x] < position[y];
  });
  auto merged = measure(both);
  if (!merged || merged->first.nodes.size() > maxNodes)
    return false;
  auto before = measure(first), after = measure(second);
  if (!before || !after)
    return false;
  const auto &[loops, schedule] = *merged;
  if (stridedAccesses(loops, schedule) >
      stridedAccesses(before->first, before->second) +
          stridedAccesses(after->first, after->second))
    return false;
  // Columns are read in narrow strips: right for sums over rows, wrong for
  // whatever else could run along the rows.
  if (schedule.kind == Schedule::Column &&
      (before->second.kind != Schedule::Column ||
       after->second.kind != Schedule::Column))
    for (const Store &store : loops.stores)
      for (auto [c, variable] :
           llvm::zip_equal(store.offset.coefficients, loops.variables))
        if (c != 0 && variable.isReduced)
          return false;
  return true;
}

bool Grouping::tryMerge(int a, int b) {
  if (a == b || !canMerge(a, b))
    return false;
  if (a > b)
    std::swap(a, b);
  auto &ops = candidates[a].ops;
  ops.append(candidates[b].ops);
  llvm::sort(ops, [&](Operation *x, Operation *y) {
    return position[x] < position[y];
  });
  for (Operation *op : candidates[b].ops)
    owner[op] = a;
  candidates[b] = {{}, false};
  return true;
}

/// Groups that compute operands of `op`, then those that read the same values;
/// the latest first.
SmallVector<int> Grouping::relatedGroups(Operation *op) {
  llvm::SetVector<int> producers, readers;
  for (Value input : inputsOf(op)) {
    Value source = input;
    while (auto reshape = source.getDefiningOp<graph::ReshapeOp>())
      source = reshape.getInput();
    Operation *producer = source.getDefiningOp();
    if (auto found = owner.find(producer); producer && found != owner.end())
      producers.insert(found->second);
    if (cast<RankedTensorType>(source.getType()).getRank() == 0)
      continue; // scalars relate everything to everything
    for (Operation *user : source.getUsers())
      if (auto found = owner.find(user);
          found != owner.end() && position[user] < position[op])
        readers.insert(found->second);
  }
  SmallVector<int> result = producers.takeVector();
  llvm::sort(result, std::greater<>());
  SmallVector<int> others = readers.takeVector();
  llvm::sort(others, std::greater<>());
  for (int group : others)
    if (!llvm::is_contained(result, group))
      result.push_back(group);
  return result;
}

void Grouping::assign(Operation *op) {
  for (int related : relatedGroups(op)) {
    if (!candidates[related].isAlive)
      continue;
    tryMerge(related, owner[op]);
  }
}

/// Whether computing the op again is cheaper than reading its result.
static bool isCheap(Operation *op) {
  return isa<graph::NegOp, graph::AbsOp, graph::ReluOp, graph::NotOp,
             graph::AddOp, graph::SubOp, graph::MulOp, graph::MaxOp,
             graph::MinOp, graph::AndOp, graph::OrOp, graph::CompareOp,
             graph::SelectOp, graph::ConvertOp>(op);
}

static int64_t bytesOf(Value value) {
  return rank::getByteSize(value.getType());
}

/// Adds cheap ops of other groups where that reads no more bytes.
void Grouping::recomputeCheapInputs(int group) {
  auto &ops = candidates[group].ops;
  bool changed = true;
  while (changed) {
    changed = false;
    SmallVector<Value> inputs = inputsOf(ops);
    for (Value input : inputs) {
      // The chain of cheap ops that leads to what must be read anyway.
      Operation *producer = input.getDefiningOp();
      if (!producer || !owner.contains(producer) || !isCheap(producer))
        continue;
      SmallVector<Operation *> extended(ops);
      int64_t before = 0, after = 0;
      for (Value value : inputs)
        before += bytesOf(value);
      SmallVector<Operation *> added = {producer};
      for (int depth = 0; depth < 8; ++depth) {
        extended.assign(ops.begin(), ops.end());
        extended.append(added);
        llvm::sort(extended, [&](Operation *x, Operation *y) {
          return position[x] < position[y];
        });
        after = 0;
        Operation *next = nullptr;
        for (Value value : inputsOf(extended)) {
          after += bytesOf(value);
          Operation *op = value.getDefiningOp();
          if (!llvm::is_contained(inputs, value) && op && owner.contains(op) &&
              isCheap(op) && !next)
            next = op;
        }
        if (after <= before || !next)
          break;
        added.push_back(next);
      }
      if (after > before)
        continue;
      SmallVector<Value> outputs;
      for (Value output : outputsOf(ops))
        outputs.push_back(output);
      if (outputs.empty() || !loopsOf(inputsOf(extended), outputs))
        continue;
      ops = extended;
      changed = true;
      break;
    }
  }
}

/// From what ops outside need back to what each group needs.
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
        if (isInside(operand, members[group], &block))
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
        if (isa<graph::ReshapeOp>(op) || !isInside(input, {}, &block))
          need(input);
        else
          for (Value outer : collectInputs(input.getDefiningOp(), &block))
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
