// What may be split: constraints spread along factors, by priority.

#include <deque>

#include "compiler/sharding/Propagation.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;
using graph::FactorKind;
using graph::PartialPass;
using graph::TensorFactors;
using shard::AxisRef;
using shard::DimAttr;
using shard::LayoutAttr;
using shard::ReductionKind;

/// The dim of which `factor` is the most major part, or -1.
static int64_t majorDim(const TensorFactors &tensor, int factor) {
  for (auto [dim, factors] : llvm::enumerate(tensor))
    if (!factors.empty() && factors.front() == factor)
      return dim;
  return -1;
}

static bool hasFactor(const TensorFactors &tensor, int factor) {
  return llvm::any_of(tensor, [&](const graph::DimFactors &dim) {
    return llvm::is_contained(dim, factor);
  });
}

/// Finds the factors that are computed from constants alone: a mask, a
/// broadcast. They follow whoever uses them, and what one user splits says
/// nothing about the others.
void Propagation::findFreeFactors() {
  auto isFreeDim = [&](int id, int64_t dim) {
    const Node &def = nodes[values[id].def];
    return llvm::all_of(def.rule.results[values[id].result][dim],
                        [&](int factor) { return def.isFree[factor]; });
  };
  for (Node &node : nodes) {
    bool mayBe = node.kind == NodeKind::Op || node.kind == NodeKind::Source ||
                 node.kind == NodeKind::Slice;
    node.isFree.assign(node.rule.factors.size(), mayBe);
    for (auto [operand, tensor] : llvm::enumerate(node.rule.operands))
      for (auto [dim, factors] : llvm::enumerate(tensor))
        for (int factor : factors)
          if (node.isFree[factor])
            node.isFree[factor] = isFreeDim(node.operands[operand], dim);
  }
}

void Propagation::reach(int id, int factor, int atom, int level, int constraint,
                        int distance) {
  Node &node = nodes[id];
  if (node.kind == NodeKind::Fixed)
    return;
  if (node.level[atom] >= 0 && node.level[atom] < level)
    return;
  auto &reached = node.reached[atom];
  if (llvm::any_of(reached, [&](const Node::Reach &other) {
        return other.factor == factor;
      }))
    return;
  if (node.constraint >= 0) {
    // A constraint's own axes are where it puts them; a closed dim takes no
    // others.
    const Constraint &fixed = constraints[node.constraint];
    const TensorFactors &tensor = node.rule.results.front();
    for (auto [d, dim] : llvm::enumerate(fixed.layout.getDims())) {
      bool isHere = hasFactor({tensor[d]}, factor);
      bool named = shard::overlap(dim.getAxes(), atoms[atom]);
      if (named != isHere && (named || !fixed.open[d]))
        return;
    }
  }
  if (node.rule.factors[factor].kind == FactorKind::Composite &&
      !(node.op && isa<graph::CompositeOp>(node.op)))
    return;
  SmallVector<Choice> choices(atoms.size());
  choices[atom] = {Choice::Split, factor};
  if (!makeLabel(node, choices))
    return;
  node.level[atom] = level;
  reached.push_back({factor, constraint, distance});
}

void Propagation::extend() {
  findFreeFactors();
  firstFactor.clear();
  classOf.clear();
  extents.clear();
  for (Node &node : nodes) {
    node.level.assign(atoms.size(), -1);
    node.reached.assign(atoms.size(), {});
  }
  struct Step {
    int node, factor, atom, constraint, distance;
  };
  auto spread = [&](std::deque<Step> &queue, int level) {
    auto enter = [&](int node, int factor, const Step &from) {
      size_t before = nodes[node].reached[from.atom].size();
      reach(node, factor, from.atom, level, from.constraint, from.distance + 1);
      if (nodes[node].reached[from.atom].size() > before)
        queue.push_back(
            {node, factor, from.atom, from.constraint, from.distance + 1});
    };
    while (!queue.empty()) {
      Step step = queue.front();
      queue.pop_front();
      const Node &node = nodes[step.node];
      for (auto [i, id] : llvm::enumerate(node.operands)) {
        int64_t dim = majorDim(node.rule.operands[i], step.factor);
        const TensorValue &value = values[id];
        if (dim < 0 || nodes[value.def].kind == NodeKind::Source)
          continue;
        const auto &factors = nodes[value.def].rule.results[value.result][dim];
        if (!factors.empty())
          enter(value.def, factors.front(), step);
      }
      if (node.isFree[step.factor])
        continue;
      for (auto [i, id] : llvm::enumerate(node.results)) {
        int64_t dim = majorDim(node.rule.results[i], step.factor);
        if (dim < 0)
          continue;
        for (const Use &use : values[id].uses) {
          const auto &factors = nodes[use.node].rule.operands[use.operand][dim];
          if (!factors.empty())
            enter(use.node, factors.front(), step);
        }
      }
    }
  };

  int levels = 1;
  for (const Constraint &constraint : constraints)
    levels = std::max(levels, constraint.level + 1);
  for (int level = 0; level < levels; ++level) {
    std::deque<Step> queue;
    auto start = [&](int id, const TensorFactors &tensor, LayoutAttr layout,
                     int constraint) {
      for (auto [d, dim] : llvm::enumerate(layout.getDims()))
        for (int atom : numbers(dim.getAxes())) {
          if (tensor[d].empty())
            continue;
          int factor = tensor[d].front();
          Node &node = nodes[id];
          auto *known = llvm::find_if(node.reached[atom], [&](auto &other) {
            return other.factor == factor;
          });
          if (known != node.reached[atom].end()) {
            // A more important constraint came here first.
            known->constraint = constraint;
            known->distance = 0;
          } else if (node.kind == NodeKind::Fixed) {
            node.level[atom] = level;
            node.reached[atom].push_back({factor, constraint, 0});
          } else {
            reach(id, factor, atom, level, constraint, 0);
          }
          queue.push_back({id, factor, atom, constraint, 0});
        }
    };
    for (auto [id, node] : llvm::enumerate(nodes)) {
      if (node.constraint >= 0 && constraints[node.constraint].level == level)
        start(id, node.rule.results.front(),
              constraints[node.constraint].layout, node.constraint);
      if (node.kind == NodeKind::Fixed && level == 0) {
        for (auto [i, layout] : llvm::enumerate(node.fixedResults))
          start(id, node.rule.results[i], layout, outside);
        for (auto [i, layout] : llvm::enumerate(node.fixedOperands))
          start(id, node.rule.operands[i], layout, outside);
      }
    }
    spread(queue, level);
  }
  findPartials();
  findExtents();
}

/// Forward: over which atoms, and of which kinds, a value may be partial.
void Propagation::findPartials() {
  partials.assign(values.size(), SmallVector<uint8_t>(atoms.size(), 0));
  bool changed = true;
  auto add = [&](int value, int atom, ReductionKind kind) {
    uint8_t bit = 1u << static_cast<int>(kind);
    changed |= !(partials[value][atom] & bit);
    partials[value][atom] |= bit;
  };
  while (changed) {
    changed = false;
    for (const Node &node : nodes) {
      for (auto [i, layout] : llvm::enumerate(node.fixedResults))
        for (int atom : numbers(layout.getPartialAxes()))
          add(node.results[i], atom, layout.getPartialKind());
      for (size_t atom = 0; atom < atoms.size(); ++atom)
        for (const Choice &choice : choicesOf(node, atom)) {
          if (choice.kind == Choice::Pass)
            for (int result : node.results)
              add(result, atom, choice.reduction);
          if (choice.kind == Choice::Split &&
              node.rule.factors[choice.factor].kind != FactorKind::Composite &&
              !node.rule.isResultOnly(choice.factor))
            for (auto [i, result] : llvm::enumerate(node.results))
              if (!node.rule.resultHas(i, choice.factor))
                add(result, atom, node.rule.factors[choice.factor].reduction);
        }
    }
  }
}

/// Dims that are connected have one padded extent, divisible by all that may
/// split any of them.
void Propagation::findExtents() {
  firstFactor.clear();
  classOf.clear();
  for (const Node &node : nodes) {
    firstFactor.push_back(classOf.size());
    for (size_t f = 0; f < node.rule.factors.size(); ++f)
      classOf.push_back(classOf.size());
  }
  auto find = [&](int item) {
    while (classOf[item] != item)
      item = classOf[item] = classOf[classOf[item]];
    return item;
  };
  for (const TensorValue &value : values) {
    const TensorFactors &given = nodes[value.def].rule.results[value.result];
    for (const Use &use : value.uses) {
      const TensorFactors &taken = nodes[use.node].rule.operands[use.operand];
      for (auto [from, to] : llvm::zip_equal(given, taken))
        if (from.size() == 1 && to.size() == 1)
          classOf[find(firstFactor[value.def] + from.front())] =
              find(firstFactor[use.node] + to.front());
    }
  }
  extents.clear();
  llvm::DenseMap<int, uint32_t> splitting;
  llvm::DenseMap<int, int64_t> sizes, fixed;
  for (auto [id, node] : llvm::enumerate(nodes)) {
    for (size_t f = 0; f < node.rule.factors.size(); ++f) {
      int item = find(firstFactor[id] + f);
      sizes[item] = node.rule.factors[f].size;
      for (size_t atom = 0; atom < atoms.size(); ++atom)
        for (const Node::Reach &reach : node.reached[atom])
          if (reach.factor == static_cast<int>(f))
            splitting[item] |= 1u << atom;
    }
    auto keep = [&](const TensorFactors &tensor, LayoutAttr layout) {
      for (auto [factors, dim] : llvm::zip_equal(tensor, layout.getDims()))
        if (factors.size() == 1 && dim.getPadded())
          fixed[find(firstFactor[id] + factors.front())] = dim.getPadded();
    };
    for (auto [tensor, layout] :
         llvm::zip(node.rule.results, node.fixedResults))
      keep(tensor, layout);
    for (auto [tensor, layout] :
         llvm::zip(node.rule.operands, node.fixedOperands))
      keep(tensor, layout);
  }
  for (auto [item, mask] : splitting) {
    int64_t blocks = 1;
    for (size_t atom = 0; atom < atoms.size(); ++atom)
      if (mask >> atom & 1)
        blocks *= atoms[atom].size;
    int64_t extent = llvm::alignTo(sizes[item], blocks);
    if (extent != sizes[item])
      extents[item] = extent;
  }
  // Closed neighbours have chosen already.
  closedExtents.clear();
  for (auto [item, extent] : fixed) {
    extents[item] = extent;
    closedExtents.insert(item);
  }
  for (int &item : classOf)
    item = find(item);
}

int64_t Propagation::getExtent(int node, int factor) const {
  if (firstFactor.empty())
    return 0;
  return extents.lookup(classOf[firstFactor[node] + factor]);
}

bool Propagation::tightenExtents(const Solution &solution) {
  if (extents.empty())
    return false;
  // What splits each class in the solution, as one common multiple.
  llvm::DenseMap<int, int64_t> blocks;
  auto add = [&](int node, const TensorFactors &tensor, LayoutAttr layout) {
    for (auto [factors, dim] : llvm::zip_equal(tensor, layout.getDims()))
      if (factors.size() == 1) {
        int64_t &multiple =
            blocks.try_emplace(classOf[firstFactor[node] + factors.front()], 1)
                .first->second;
        multiple = std::lcm(multiple, dim.getNumBlocks());
      }
  };
  bool changed = false;
  llvm::DenseMap<int, int64_t> sizes;
  for (auto [id, node] : llvm::enumerate(nodes)) {
    const Label &label = node.labels[solution.labels[id]];
    if (node.kind == NodeKind::Fixed)
      continue;
    for (auto [tensor, layout] : llvm::zip(node.rule.operands, label.operands))
      add(id, tensor, layout);
    for (auto [tensor, layout] : llvm::zip(node.rule.results, label.results))
      add(id, tensor, layout);
    for (auto [f, factor] : llvm::enumerate(node.rule.factors))
      sizes[classOf[firstFactor[id] + f]] = factor.size;
  }
  for (auto &[item, extent] : extents) {
    auto used = blocks.find(item);
    if (used == blocks.end() || closedExtents.contains(item))
      continue;
    int64_t tight = llvm::alignTo(sizes[item], used->second);
    changed |= tight < extent;
    extent = std::min(extent, tight);
  }
  return changed;
}
