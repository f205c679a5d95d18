// Finds orders of ops that may have good cuts.

#include <algorithm>
#include <array>
#include <numeric>

#include "compiler/stages/StageCut.h"

using namespace polyrank::stages;

CutProblem polyrank::stages::reorder(const CutProblem &problem,
                                     const std::vector<int> &order) {
  CutProblem result = problem;
  std::vector<int> position(order.size());
  for (int i = 0; i < static_cast<int>(order.size()); ++i)
    position[order[i]] = i;
  for (int i = 0; i < static_cast<int>(order.size()); ++i) {
    result.ops[i] = problem.ops[order[i]];
    for (int &operand : result.ops[i].operands)
      operand = position[operand];
  }
  return result;
}

/// Sorts by key; values with equal keys keep their order.
template <typename Key>
static std::vector<int> sortBy(const std::vector<int> &values, Key key) {
  std::vector<std::array<int, 3>> entries;
  for (int value : values)
    entries.push_back({key(value), static_cast<int>(entries.size()), value});
  std::sort(entries.begin(), entries.end());
  std::vector<int> sorted;
  for (const auto &entry : entries)
    sorted.push_back(entry[2]);
  return sorted;
}

/// Depth-first order: each op comes before its first user, with the longest
/// path to that user first. So ops that do not depend on each other are not
/// mixed, and ops that depend only on parameters come just before their use.
/// Ops that nothing uses, such as statistics, come as early as possible.
static std::vector<int> orderDepthFirst(const std::vector<CutOp> &ops) {
  std::vector<int> depth(ops.size()), order, roots;
  std::vector<bool> isUsed(ops.size()), isDone(ops.size());
  for (int i = 0; i < static_cast<int>(ops.size()); ++i)
    for (int operand : ops[i].operands) {
      depth[i] = std::max(depth[i], depth[operand] + 1);
      isUsed[operand] = true;
    }
  for (int i = 0; i < static_cast<int>(ops.size()); ++i)
    if (!isUsed[i])
      roots.push_back(i);
  // This is not recursive, since chains of ops are long.
  std::vector<std::pair<int, bool>> open;
  for (int root : sortBy(roots, [&](int op) { return depth[op]; })) {
    open.push_back({root, false});
    while (!open.empty()) {
      auto [op, isReady] = open.back();
      open.pop_back();
      if (isDone[op])
        continue;
      if (isReady) {
        isDone[op] = true;
        order.push_back(op);
        continue;
      }
      open.push_back({op, true});
      // The last one pushed is the first to be visited.
      for (int operand :
           sortBy(ops[op].operands, [&](int op) { return depth[op]; }))
        if (!isDone[operand])
          open.push_back({operand, false});
    }
  }
  return order;
}

std::vector<std::vector<int>>
polyrank::stages::getCutOrders(const CutProblem &problem) {
  const std::vector<CutOp> &ops = problem.ops;
  std::vector<int> own(ops.size());
  std::iota(own.begin(), own.end(), 0);
  std::vector<std::vector<int>> orders;
  auto add = [&](std::vector<int> order) {
    if (std::find(orders.begin(), orders.end(), order) == orders.end())
      orders.push_back(std::move(order));
  };
  // The first and the last stage that each op can be on. Both are at least as
  // high for an op's users, so sorting by one of them keeps operands first.
  std::vector<int> first(ops.size(), 0), last(ops.size(), problem.stages - 1);
  bool isFree = true;
  for (size_t i = 0; i < ops.size(); ++i) {
    for (int operand : ops[i].operands)
      first[i] = std::max(first[i], first[operand]);
    if (ops[i].fixed >= 0) {
      first[i] = ops[i].fixed;
      isFree = false;
    }
  }
  for (size_t i = ops.size(); i-- > 0;) {
    if (ops[i].fixed >= 0)
      last[i] = ops[i].fixed;
    for (int operand : ops[i].operands)
      last[operand] = std::min(last[operand], last[i]);
  }
  for (const std::vector<int> &order : {own, orderDepthFirst(ops)}) {
    if (isFree) {
      add(order);
      continue;
    }
    for (const std::vector<int> &key : {last, first})
      add(sortBy(order, [&](int op) { return key[op]; }));
  }
  return orders;
}
