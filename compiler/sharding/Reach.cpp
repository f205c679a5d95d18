// Finds which dims may be split: constraints spread along factors, by priority.

#include "compiler/sharding/Reach.h"

#include <deque>

#include "compiler/sharding/Candidates.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;
using graph::FactorKind;
using graph::PartialPass;
using graph::TensorFactors;
using sharding::AxisRef;
using sharding::DimAttr;
using sharding::LayoutAttr;
using sharding::ReductionKind;

/// The dim of which `factor` is a part, or -1.
static int64_t dimOf(const TensorFactors &tensor, int factor) {
  for (auto [dim, factors] : llvm::enumerate(tensor))
    if (llvm::is_contained(factors, factor))
      return dim;
  return -1;
}

/// Returns true if `factor` is part of some dim that has more major factors.
static bool isMinor(const graph::ShardingRule &rule, int factor) {
  auto isMinorOf = [&](const TensorFactors &tensor) {
    int64_t dim = dimOf(tensor, factor);
    return dim >= 0 && tensor[dim].front() != factor;
  };
  return llvm::any_of(rule.operands, isMinorOf) ||
         llvm::any_of(rule.results, isMinorOf);
}

namespace {
class Extension {
public:
  explicit Extension(const SideTable &table)
      : table(table), nodes(table.nodes), values(table.values),
        subAxes(table.subAxes), constraints(table.constraints) {}
  Reach run();

private:
  /// A sub-axis that arrives at a factor of a node.
  struct Step {
    int node, factor, subAxis, level, constraint, distance;
  };

  void findFreeFactors();
  void findPartials();
  /// Starts where a constraint or a fixed node puts the sub-axis: `layout` is
  /// that of a value of node `id` with the factors `tensor`.
  void start(int id, const TensorFactors &tensor, LayoutAttr layout, int level,
             int constraint, int subAxis);
  void startAt(const Node &node, int level, int subAxis);
  /// Lets a step arrive, and those that waited for it, if the node can split
  /// the factor.
  void enter(const Step &step);
  void enterDim(int node, const graph::DimFactors &factors, const Step &from);
  /// Spreads from node to node what has arrived.
  void spread();
  bool canSplit(const Node &node, int factor, int subAxis) const;
  void reach(const Node &node, int factor, int subAxis, int level,
             int constraint, int distance);
  NodeReach &of(const Node &node) { return result.nodes[node.number]; }
  const NodeReach &of(const Node &node) const { return result.of(node); }

  const SideTable &table;
  ArrayRef<Node> nodes;
  ArrayRef<TensorValue> values;
  ArrayRef<AxisRef> subAxes;
  ArrayRef<Constraint> constraints;
  Reach result;
  std::deque<Step> queue;
  /// Per node: arrivals at minor factors that need other sub-axes to arrive
  /// first.
  llvm::DenseMap<int, SmallVector<Step>> waiting;
};
} // namespace

/// Finds the free factors: along these, a node's values depend on constants
/// alone, as in a mask or along the new dims of a broadcast. Such a factor is
/// split as its users want, and a split by one user does not spread to the
/// others.
void Extension::findFreeFactors() {
  auto isFreeDim = [&](int id, int64_t dim) {
    const Node &def = nodes[values[id].def];
    return llvm::all_of(def.rule.results[values[id].result][dim],
                        [&](int factor) { return of(def).isFree[factor]; });
  };
  for (const Node &node : nodes) {
    SmallVector<bool> &isFree = of(node).isFree;
    bool mayBe = node.kind == NodeKind::Op || node.kind == NodeKind::Source ||
                 node.kind == NodeKind::Slice;
    isFree.assign(node.rule.factors.size(), mayBe);
    for (auto [operand, tensor] : llvm::enumerate(node.rule.operands))
      for (auto [dim, factors] : llvm::enumerate(tensor))
        for (int factor : factors)
          if (isFree[factor])
            isFree[factor] = isFreeDim(node.operands[operand], dim);
  }
}

/// Returns true if the node can split the factor over the sub-axis: alone, or,
/// in a dim with more major factors, together with other sub-axes that split
/// those.
bool Extension::canSplit(const Node &node, int factor, int subAxis) const {
  SmallVector<Choice> choices(subAxes.size());
  choices[subAxis] = {Choice::Split, factor};
  if (makeCandidate(table, nullptr, node, choices))
    return true;
  llvm::SmallSetVector<int, 4> majors;
  for (const auto *tensors : {&node.rule.operands, &node.rule.results})
    for (const TensorFactors &tensor : *tensors)
      if (int64_t dim = dimOf(tensor, factor); dim >= 0)
        for (int major : tensor[dim]) {
          if (major == factor)
            break;
          majors.insert(major);
        }
  // Each other sub-axis splits one of these factors, or none.
  std::function<bool(size_t)> choose = [&](size_t other) {
    if (other == subAxes.size())
      return makeCandidate(table, nullptr, node, choices).has_value();
    if (choose(other + 1))
      return true;
    if (static_cast<int>(other) == subAxis)
      return false;
    for (int major : majors) {
      if (!of(node).has(other, major))
        continue;
      choices[other] = {Choice::Split, major};
      bool found = choose(other + 1);
      choices[other] = {};
      if (found)
        return true;
    }
    return false;
  };
  return !majors.empty() && choose(0);
}

void Extension::reach(const Node &node, int factor, int subAxis, int level,
                      int constraint, int distance) {
  NodeReach &reached = of(node);
  if (node.kind == NodeKind::Fixed)
    return;
  if (reached.level[subAxis] >= 0 && reached.level[subAxis] < level)
    return;
  if (reached.has(subAxis, factor))
    return;
  if (node.constraint >= 0) {
    // A constraint's axes stay where it puts them; a closed dim takes no other
    // axes.
    const Constraint &fixed = constraints[node.constraint];
    const TensorFactors &tensor = node.rule.results.front();
    for (auto [d, dim] : llvm::enumerate(fixed.layout.getDims())) {
      bool isHere = llvm::is_contained(tensor[d], factor);
      bool named = sharding::overlap(dim.getAxes(), subAxes[subAxis]);
      if (named != isHere && (named || !fixed.open[d]))
        return;
    }
  }
  if (node.rule.factors[factor].kind == FactorKind::Composite &&
      !(node.op && isa<graph::CompositeOp>(node.op)))
    return;
  // The blocks into which more major sub-axes of the same axis already split
  // the factor.
  int64_t blocks = subAxes[subAxis].size;
  for (auto [other, ref] : llvm::enumerate(subAxes))
    if (ref.axis == subAxes[subAxis].axis &&
        table.order[other] < table.order[subAxis] && reached.has(other, factor))
      blocks *= ref.size;
  if (distance > 0 && node.rule.factors[factor].size < blocks)
    return;
  if (!canSplit(node, factor, subAxis))
    return;
  reached.level[subAxis] = level;
  reached.arrivals[subAxis].push_back({factor, constraint, distance});
}

void Extension::enter(const Step &step) {
  const Node &node = nodes[step.node];
  if (of(node).has(step.subAxis, step.factor))
    return;
  reach(node, step.factor, step.subAxis, step.level, step.constraint,
        step.distance);
  if (!of(node).has(step.subAxis, step.factor)) {
    if (isMinor(node.rule, step.factor))
      waiting[step.node].push_back(step);
    return;
  }
  queue.push_back(step);
  for (const Step &other : std::exchange(waiting[step.node], {}))
    enter(other);
}

void Extension::enterDim(int node, const graph::DimFactors &factors,
                         const Step &from) {
  for (int factor : factors)
    enter({node, factor, from.subAxis, from.level, from.constraint,
           from.distance + 1});
}

void Extension::spread() {
  while (!queue.empty()) {
    Step step = queue.front();
    queue.pop_front();
    const Node &node = nodes[step.node];
    for (auto [i, id] : llvm::enumerate(node.operands)) {
      int64_t dim = dimOf(node.rule.operands[i], step.factor);
      const TensorValue &value = values[id];
      if (dim >= 0 && nodes[value.def].kind != NodeKind::Source)
        enterDim(value.def, nodes[value.def].rule.results[value.result][dim],
                 step);
    }
    if (of(node).isFree[step.factor])
      continue;
    for (auto [i, id] : llvm::enumerate(node.results)) {
      int64_t dim = dimOf(node.rule.results[i], step.factor);
      if (dim < 0)
        continue;
      for (const Use &use : values[id].uses)
        enterDim(use.node, nodes[use.node].rule.operands[use.operand][dim],
                 step);
    }
  }
}

void Extension::start(int id, const TensorFactors &tensor, LayoutAttr layout,
                      int level, int constraint, int subAxis) {
  for (auto [d, dim] : llvm::enumerate(layout.getDims())) {
    if (tensor[d].empty() ||
        !llvm::is_contained(table.numbers(dim.getAxes()), subAxis))
      continue;
    int factor = tensor[d].front();
    const Node &node = nodes[id];
    auto &arrivals = of(node).arrivals[subAxis];
    auto *known = llvm::find_if(
        arrivals, [&](auto &other) { return other.factor == factor; });
    if (known != arrivals.end()) {
      // A more important constraint has reached this node already.
      known->constraint = constraint;
      known->distance = 0;
    } else if (node.kind == NodeKind::Fixed) {
      of(node).level[subAxis] = level;
      arrivals.push_back({factor, constraint, 0});
    } else {
      reach(node, factor, subAxis, level, constraint, 0);
    }
    queue.push_back({id, factor, subAxis, level, constraint, 0});
  }
}

void Extension::startAt(const Node &node, int level, int subAxis) {
  int id = node.number;
  if (node.constraint >= 0 && constraints[node.constraint].level == level)
    start(id, node.rule.results.front(), constraints[node.constraint].layout,
          level, node.constraint, subAxis);
  if (node.kind != NodeKind::Fixed || level != 0)
    return;
  for (auto [i, layout] : llvm::enumerate(node.fixedResults))
    start(id, node.rule.results[i], layout, level, table.outside, subAxis);
  for (auto [i, layout] : llvm::enumerate(node.fixedOperands))
    start(id, node.rule.operands[i], layout, level, table.outside, subAxis);
}

Reach Extension::run() {
  result.nodes.resize(nodes.size());
  findFreeFactors();
  for (NodeReach &reached : result.nodes) {
    reached.level.assign(subAxes.size(), -1);
    reached.arrivals.assign(subAxes.size(), {});
  }
  // Major sub-axes go first: they take the major factors of a dim that several
  // factors make up.
  auto majorToMinor = llvm::to_vector(llvm::seq<int>(0, subAxes.size()));
  llvm::stable_sort(majorToMinor, [&](int a, int b) {
    return table.order[a] < table.order[b];
  });
  int levels = 1;
  for (const Constraint &constraint : constraints)
    levels = std::max(levels, constraint.level + 1);
  for (int level = 0; level < levels; ++level)
    for (int subAxis : majorToMinor) {
      for (const Node &node : nodes)
        startAt(node, level, subAxis);
      spread();
    }
  findPartials();
  return std::move(result);
}

/// Finds, from operands to results, over which sub-axes and with which kinds a
/// value may be partial.
void Extension::findPartials() {
  auto &partials = result.partials;
  partials.assign(values.size(), SmallVector<uint8_t>(subAxes.size(), 0));
  bool changed = true;
  auto add = [&](int value, int subAxis, ReductionKind kind) {
    uint8_t bit = 1u << static_cast<int>(kind);
    changed |= !(partials[value][subAxis] & bit);
    partials[value][subAxis] |= bit;
  };
  while (changed) {
    changed = false;
    for (const Node &node : nodes) {
      for (auto [i, layout] : llvm::enumerate(node.fixedResults))
        for (int subAxis : table.numbers(layout.getPartialAxes()))
          add(node.results[i], subAxis, layout.getPartialKind());
      for (size_t subAxis = 0; subAxis < subAxes.size(); ++subAxis)
        for (const Choice &choice : choicesOf(table, result, node, subAxis)) {
          if (choice.kind == Choice::Pass)
            for (int id : node.results)
              add(id, subAxis, choice.reduction);
          for (auto [i, id] : llvm::enumerate(node.results))
            if (makesPartial(node.rule, choice, i))
              add(id, subAxis, node.rule.factors[choice.factor].reduction);
        }
    }
  }
}

Reach polyrank::sharding::findReach(const SideTable &table) {
  return Extension(table).run();
}
