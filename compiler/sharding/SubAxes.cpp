// Gives constraints their levels, cuts mesh axes into sub-axes, and hashes
// nodes.

#include "compiler/sharding/SubAxes.h"

#include "compiler/sharding/Objective.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;

static void hashNode(const SideTable &table, Node &node) {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << static_cast<int>(node.kind) << node.executions;
  if (node.kind == NodeKind::Boundary || node.kind == NodeKind::Output)
    out << node.identity << node.name;
  else if (node.op)
    out << node.op->getName();
  if (node.kind == NodeKind::Op || node.kind == NodeKind::Source)
    out << node.op->getAttrDictionary();
  out << node.rule.toString();
  for (int operand : node.operands)
    if (int def = table.values[operand].def; def < node.number)
      out << table.nodes[def].hash << "." << table.values[operand].result
          << " ";
  node.hash = llvm::xxh3_64bits(out.str());
}

SmallVector<int> SideTable::numbers(ArrayRef<AxisRef> axes) const {
  SmallVector<int> list;
  for (AxisRef ref : axes)
    for (auto [number, subAxis] : llvm::enumerate(subAxes))
      if (ref.overlaps(subAxis))
        list.push_back(number);
  return list;
}

/// Turns priorities into levels.
static LogicalResult levelConstraints(SideTable &table, Operation *where) {
  using Rank = std::pair<int, bool>;
  auto rank = [](const Constraint &constraint) {
    return Rank(constraint.level, !constraint.isParameter);
  };
  SmallVector<Rank> ranks;
  for (const Constraint &constraint : table.constraints)
    ranks.push_back(rank(constraint));
  llvm::sort(ranks);
  ranks.erase(llvm::unique(ranks), ranks.end());
  if (ranks.size() > maxLevels)
    return where->emitError("constraints have ")
           << ranks.size() << " priorities, counted apart for parameters and "
           << "others; " << maxLevels << " are possible";
  for (Constraint &constraint : table.constraints)
    constraint.level = llvm::find(ranks, rank(constraint)) - ranks.begin();
  return success();
}

/// Finds the pieces into which constraints and fixed layouts cut the mesh axes.
static LogicalResult cutSubAxes(SideTable &table, Operation *where) {
  SmallVector<AxisRef> cuts;
  auto addCuts = [&](LayoutAttr layout) {
    llvm::append_range(cuts, layout.getPartialAxes());
    for (DimAttr dim : layout.getDims())
      llvm::append_range(cuts, dim.getAxes());
  };
  for (const Constraint &constraint : table.constraints)
    addCuts(constraint.layout);
  for (const Node &node : table.nodes) {
    llvm::for_each(node.fixedOperands, addCuts);
    llvm::for_each(node.fixedResults, addCuts);
  }
  auto pieces = sharding::subAxes(cuts, cuts);
  if (!pieces)
    return where->emitError("constraints cut one mesh axis at sizes that do "
                            "not divide each other");
  llvm::sort(*pieces);
  pieces->erase(llvm::unique(*pieces), pieces->end());
  table.subAxes = *pieces;
  return success();
}

/// Orders sub-axes for dims that several of them split: the more important
/// first, then as in some constraint, then in mesh order.
static void orderSubAxes(SideTable &table) {
  ArrayRef<AxisRef> subAxes = table.subAxes;
  SmallVector<int> level(subAxes.size(), maxLevels);
  SmallVector<int> sorted;
  for (const Constraint &constraint : table.constraints)
    for (DimAttr dim : constraint.layout.getDims())
      for (int subAxis : table.numbers(dim.getAxes()))
        level[subAxis] = std::min(level[subAxis], constraint.level);
  for (size_t subAxis = 0; subAxis < subAxes.size(); ++subAxis)
    sorted.push_back(subAxis);
  llvm::sort(sorted, [&](int a, int b) {
    return std::pair(level[a], a) < std::pair(level[b], b);
  });
  auto arrange = [&](LayoutAttr layout) {
    for (DimAttr dim : layout.getDims()) {
      SmallVector<int> wanted = table.numbers(dim.getAxes());
      size_t next = 0;
      for (int &subAxis : sorted)
        if (llvm::is_contained(wanted, subAxis) && next < wanted.size())
          subAxis = wanted[next++];
    }
  };
  for (const Node &node : table.nodes)
    llvm::for_each(node.fixedResults, arrange);
  // The most important constraint arranges last, and so wins.
  SmallVector<std::tuple<int, std::string, LayoutAttr>> byLevel;
  for (const Constraint &constraint : table.constraints)
    byLevel.push_back({-constraint.level, constraint.text, constraint.layout});
  llvm::sort(byLevel, [](const auto &a, const auto &b) {
    return std::tie(std::get<0>(a), std::get<1>(a)) <
           std::tie(std::get<0>(b), std::get<1>(b));
  });
  for (auto &[level, text, layout] : byLevel)
    arrange(layout);
  table.order.assign(subAxes.size(), 0);
  for (auto [position, subAxis] : llvm::enumerate(sorted))
    table.order[subAxis] = position;
}

LogicalResult polyrank::sharding::completeTable(SideTable &table,
                                                Operation *where) {
  if (failed(levelConstraints(table, where)) ||
      failed(cutSubAxes(table, where)))
    return failure();
  orderSubAxes(table);
  for (Node &node : table.nodes)
    hashNode(table, node);
  return success();
}
