// Maintains an order of groups and of the ops outside of them in which each
// comes after what it uses.

#include "compiler/codegen/Grouping.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::codegen;

void Grouping::number() {
  Operation *previous = nullptr;
  for (Operation &op : block) {
    position[&op] = opAt.size();
    opAt.push_back(&op);
    if (isKernelOp(&op)) {
      if (isFree(&op) || dead.contains(&op))
        continue;
      int candidate = candidates.size();
      owner[&op] = candidate;
      holders[&op] = {candidate};
      candidates.push_back({{&op}});
      rank[candidate] = order.size();
      order.push_back(candidate);
      continue;
    }
    rank[outsideNode(&op)] = order.size();
    order.push_back(outsideNode(&op));
    if (previous)
      nextOutside[previous] = &op;
    previous = &op;
  }
}

void Grouping::forEachUser(ArrayRef<Operation *> ops,
                           function_ref<void(Operation *)> visit) {
  for (Operation *op : ops)
    for (Operation *user : op->getUsers()) {
      Operation *ancestor = block.findAncestorOpInBlock(*user);
      if (!ancestor || dead.contains(ancestor))
        continue;
      if (isKernelOp(ancestor) && isFree(ancestor))
        forEachUser(ancestor, visit);
      else
        visit(ancestor);
    }
}

SmallVector<int> Grouping::usersOf(int node) {
  SmallVector<int> users;
  auto add = [&](Operation *user) {
    auto found = holders.find(user);
    if (found == holders.end())
      users.push_back(outsideNode(user));
    else
      llvm::append_range(users, found->second);
  };
  if (node >= 0) {
    forEachUser(candidates[node].ops, add);
    return users;
  }
  Operation *op = opAt[-1 - node];
  forEachUser(op, add);
  // The next op outside of kernels comes after this one, so that collectives
  // keep their order.
  if (Operation *next = nextOutside.lookup(op))
    users.push_back(outsideNode(next));
  return users;
}

/// The nodes other than `first` and `last` that use `first`, directly or not,
/// and come before `last`. nullopt if `last` uses one of them.
std::optional<DenseSet<int>> Grouping::nodesBetween(int first, int last) {
  DenseSet<int> visited;
  SmallVector<int> stack = {first};
  while (!stack.empty()) {
    int node = stack.pop_back_val();
    for (int user : usersOf(node)) {
      if (user == last && node != first)
        return std::nullopt;
      // Nodes after `last` cannot lead back to it.
      if (user != first && rank[user] < rank[last] &&
          visited.insert(user).second)
        stack.push_back(user);
    }
  }
  return visited;
}

bool Grouping::isConvex(int a, int b) {
  auto [first, last] = rank[a] < rank[b] ? std::pair(a, b) : std::pair(b, a);
  return nodesBetween(first, last).has_value();
}

/// Merges `b` into `a` in the order: what uses the first of them moves after
/// the place of the last (Pearce and Kelly 2006).
void Grouping::joinInOrder(int a, int b) {
  auto [first, last] = rank[a] < rank[b] ? std::pair(a, b) : std::pair(b, a);
  DenseSet<int> behind = *nodesBetween(first, last);
  int start = rank[first], end = rank[last];
  SmallVector<int> before, after;
  for (int i = start + 1; i < end; ++i)
    if (order[i] != noNode)
      (behind.contains(order[i]) ? after : before).push_back(order[i]);
  SmallVector<int> nodes = std::move(before);
  nodes.push_back(a);
  nodes.append(after);
  nodes.resize(end - start + 1, noNode);
  for (auto [i, node] : llvm::enumerate(nodes)) {
    order[start + i] = node;
    if (node != noNode)
      rank[node] = start + i;
  }
  rank.erase(b);
}
