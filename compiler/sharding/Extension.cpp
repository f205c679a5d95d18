// What may be split: constraints spread along factors, by priority.

#include <deque>
#include <numeric>

#include "compiler/sharding/Propagation.h"
#include "llvm/Support/MathExtras.h"

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

/// The dim that `factor` is a part of, or -1.
static int64_t dimOf(const TensorFactors &tensor, int factor) {
  for (auto [dim, factors] : llvm::enumerate(tensor))
    if (llvm::is_contained(factors, factor))
      return dim;
  return -1;
}

/// Whether `factor` is a part of some dim that has more major parts.
static bool isMinor(const graph::ShardingRule &rule, int factor) {
  auto isMinorOf = [&](const TensorFactors &tensor) {
    int64_t dim = dimOf(tensor, factor);
    return dim >= 0 && tensor[dim].front() != factor;
  };
  return llvm::any_of(rule.operands, isMinorOf) ||
         llvm::any_of(rule.results, isMinorOf);
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

/// Whether the node could split the factor: alone, or, where a dim has factors
/// that are more major, when other atoms that reach those split them up.
bool Propagation::canSplit(const Node &node, int factor, int atom) const {
  SmallVector<Choice> choices(atoms.size());
  choices[atom] = {Choice::Split, factor};
  if (makeLabel(node, choices))
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
  // Each of the others splits one of these factors, or none.
  std::function<bool(size_t)> choose = [&](size_t other) {
    if (other == atoms.size())
      return makeLabel(node, choices).has_value();
    if (choose(other + 1))
      return true;
    if (static_cast<int>(other) == atom)
      return false;
    for (int major : majors) {
      if (!node.reaches(other, major))
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

void Propagation::reach(int id, int factor, int atom, int level, int constraint,
                        int distance) {
  Node &node = nodes[id];
  if (node.kind == NodeKind::Fixed)
    return;
  if (node.level[atom] >= 0 && node.level[atom] < level)
    return;
  if (node.reaches(atom, factor))
    return;
  if (node.constraint >= 0) {
    // A constraint's own axes are where it puts them; a closed dim takes no
    // others.
    const Constraint &fixed = constraints[node.constraint];
    const TensorFactors &tensor = node.rule.results.front();
    for (auto [d, dim] : llvm::enumerate(fixed.layout.getDims())) {
      bool isHere = llvm::is_contained(tensor[d], factor);
      bool named = sharding::overlap(dim.getAxes(), atoms[atom]);
      if (named != isHere && (named || !fixed.open[d]))
        return;
    }
  }
  if (node.rule.factors[factor].kind == FactorKind::Composite &&
      !(node.op && isa<graph::CompositeOp>(node.op)))
    return;
  // What more major parts of the same axis split up already.
  int64_t blocks = atoms[atom].size;
  for (auto [other, ref] : llvm::enumerate(atoms))
    if (ref.axis == atoms[atom].axis && order[other] < order[atom] &&
        node.reaches(other, factor))
      blocks *= ref.size;
  if (distance > 0 && node.rule.factors[factor].size < blocks)
    return;
  if (!canSplit(node, factor, atom))
    return;
  node.level[atom] = level;
  node.reached[atom].push_back({factor, constraint, distance});
}

void Propagation::extend() {
  findFreeFactors();
  firstFactor.clear();
  classOf.clear();
  units.clear();
  for (Node &node : nodes) {
    node.level.assign(atoms.size(), -1);
    node.reached.assign(atoms.size(), {});
  }
  struct Step {
    int node, factor, atom, level, constraint, distance;
  };
  std::deque<Step> queue;
  // Per node: what could not split a minor factor before other atoms reach it.
  llvm::DenseMap<int, SmallVector<Step>> waiting;
  std::function<void(const Step &)> enter = [&](const Step &step) {
    const Node &node = nodes[step.node];
    if (node.reaches(step.atom, step.factor))
      return;
    reach(step.node, step.factor, step.atom, step.level, step.constraint,
          step.distance);
    if (!node.reaches(step.atom, step.factor)) {
      if (isMinor(node.rule, step.factor))
        waiting[step.node].push_back(step);
      return;
    }
    queue.push_back(step);
    for (const Step &other : std::exchange(waiting[step.node], {}))
      enter(other);
  };
  auto enterDim = [&](int node, const graph::DimFactors &factors,
                      const Step &from) {
    for (int factor : factors)
      enter({node, factor, from.atom, from.level, from.constraint,
             from.distance + 1});
  };
  auto spread = [&] {
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
      if (node.isFree[step.factor])
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
  };

  auto majorToMinor = llvm::to_vector(llvm::seq<int>(0, atoms.size()));
  llvm::stable_sort(majorToMinor,
                    [&](int a, int b) { return order[a] < order[b]; });
  int levels = 1;
  for (const Constraint &constraint : constraints)
    levels = std::max(levels, constraint.level + 1);
  for (int level = 0; level < levels; ++level) {
    auto start = [&](int id, const TensorFactors &tensor, LayoutAttr layout,
                     int constraint, int atom) {
      for (auto [d, dim] : llvm::enumerate(layout.getDims())) {
        if (tensor[d].empty() ||
            !llvm::is_contained(numbers(dim.getAxes()), atom))
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
        queue.push_back({id, factor, atom, level, constraint, 0});
      }
    };
    // Major atoms first: they take the major factors of a dim that splits up.
    for (int atom : majorToMinor) {
      for (auto [id, node] : llvm::enumerate(nodes)) {
        if (node.constraint >= 0 && constraints[node.constraint].level == level)
          start(id, node.rule.results.front(),
                constraints[node.constraint].layout, node.constraint, atom);
        if (node.kind == NodeKind::Fixed && level == 0) {
          for (auto [i, layout] : llvm::enumerate(node.fixedResults))
            start(id, node.rule.results[i], layout, outside, atom);
          for (auto [i, layout] : llvm::enumerate(node.fixedOperands))
            start(id, node.rule.operands[i], layout, outside, atom);
        }
      }
      spread();
    }
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

/// Dims of a value as its def and as a user have them. Equal extents come
/// first, which never disagree; the rest in an order that does not depend on
/// that of the ops.
std::vector<Propagation::Link> Propagation::findLinks() {
  std::vector<Link> links;
  for (const TensorValue &value : values) {
    const graph::ShardingRule &giver = nodes[value.def].rule;
    for (const Use &use : value.uses) {
      const graph::ShardingRule &taker = nodes[use.node].rule;
      for (auto [d, from, to] : llvm::enumerate(giver.results[value.result],
                                                taker.operands[use.operand])) {
        if (from.size() != 1 || to.size() != 1)
          continue;
        // given * scale of the giver = taken * scale of the taker.
        Ratio step(giver.getBorder(true, value.result, d).scale,
                   taker.getBorder(false, use.operand, d).scale);
        bool isOne = step.numerator == step.denominator;
        links.push_back(
            {{!isOne, step.numerator, step.denominator, nodes[value.def].hash,
              nodes[use.node].hash, value.result, use.operand, d},
             firstFactor[value.def] + from.front(),
             firstFactor[use.node] + to.front(),
             step});
      }
    }
  }
  llvm::stable_sort(links, [](const Link &a, const Link &b) {
    return a.place < b.place;
  });
  return links;
}

/// Dims that are connected have padded extents in fixed ratios (one, but for
/// the windows of a halo factor), divisible by all that may split any of them.
void Propagation::findExtents() {
  firstFactor.clear();
  classOf.clear();
  for (const Node &node : nodes) {
    firstFactor.push_back(classOf.size());
    for (size_t f = 0; f < node.rule.factors.size(); ++f)
      classOf.push_back(classOf.size());
  }
  // Of each item: its extent over that of its parent. The smaller class goes
  // below the larger, so that ways to the root stay short.
  SmallVector<Ratio, 0> over(classOf.size());
  SmallVector<int, 0> sizes(classOf.size(), 1);
  auto find = [&](int item) {
    Ratio ratio;
    for (; classOf[item] != item; item = classOf[item])
      ratio = ratio * over[item];
    return std::pair(item, ratio);
  };
  for (const Link &link : findLinks()) {
    auto [given, fromRoot] = find(link.given);
    auto [taken, toRoot] = find(link.taken);
    // Where two ways round disagree, the value of the later is resharded.
    if (given == taken)
      continue;
    Ratio ratio = fromRoot * link.step * toRoot.inverse(); // taken over given
    if (sizes[taken] > sizes[given]) {
      std::swap(taken, given);
      ratio = ratio.inverse();
    }
    classOf[taken] = given;
    over[taken] = ratio;
    sizes[given] += sizes[taken];
  }
  SmallVector<int, 0> roots;
  ratios.clear();
  for (size_t item = 0; item < classOf.size(); ++item) {
    auto [root, ratio] = find(item);
    roots.push_back(root);
    ratios.push_back(ratio);
  }
  classOf = roots;

  // Closed neighbours have chosen already.
  closedExtents.clear();
  llvm::DenseMap<int, Ratio> fixed;
  for (auto [id, node] : llvm::enumerate(nodes)) {
    auto keep = [&](const TensorFactors &tensor, LayoutAttr layout) {
      for (auto [factors, dim] : llvm::zip_equal(tensor, layout.getDims()))
        if (factors.size() == 1 && dim.getPadded()) {
          int item = firstFactor[id] + factors.front();
          fixed[classOf[item]] =
              Ratio(dim.getPadded(), 1) * ratios[item].inverse();
        }
    };
    for (auto [tensor, layout] :
         llvm::zip(node.rule.results, node.fixedResults))
      keep(tensor, layout);
    for (auto [tensor, layout] :
         llvm::zip(node.rule.operands, node.fixedOperands))
      keep(tensor, layout);
  }
  for (auto [root, unit] : fixed) {
    closedExtents.insert(root);
    units[root] = unit;
  }
  // All that may split the class, and all that may be split.
  llvm::DenseMap<int, uint32_t> splitting;
  std::vector<char> maySplit(classOf.size(), false);
  for (auto [id, node] : llvm::enumerate(nodes))
    for (size_t atom = 0; atom < atoms.size(); ++atom)
      for (const Node::Reach &reach : node.reached[atom]) {
        int item = firstFactor[id] + reach.factor;
        splitting[classOf[item]] |= 1u << atom;
        maySplit[item] = true;
      }
  llvm::DenseMap<int, int64_t> blocks;
  for (auto [root, mask] : splitting) {
    int64_t count = 1;
    for (size_t atom = 0; atom < atoms.size(); ++atom)
      if (mask >> atom & 1)
        count *= atoms[atom].size;
    blocks[root] = count;
  }
  setUnits(blocks, maySplit);
}

/// The least units with which the extents of all `split` items of a class hold
/// their dims, in as many blocks.
bool Propagation::setUnits(const llvm::DenseMap<int, int64_t> &blocks,
                           ArrayRef<char> split) {
  // Extents of a class are whole multiples of one number: their ratios over a
  // common denominator, without a common factor.
  llvm::DenseMap<int, int64_t> denominators, common, needed;
  for (size_t item = 0; item < classOf.size(); ++item)
    if (split[item]) {
      int64_t &multiple = denominators.try_emplace(classOf[item], 1).first->second;
      multiple = std::lcm(multiple, ratios[item].denominator);
    }
  auto multipleOf = [&](size_t item) {
    return ratios[item].numerator *
           (denominators.lookup(classOf[item]) / ratios[item].denominator);
  };
  for (size_t item = 0; item < classOf.size(); ++item)
    if (split[item]) {
      int64_t &divisor = common[classOf[item]];
      divisor = std::gcd(divisor, multipleOf(item));
    }
  size_t item = 0;
  for (const Node &node : nodes)
    for (const graph::Factor &factor : node.rule.factors) {
      if (split[item]) {
        int root = classOf[item];
        int64_t multiple = multipleOf(item) / common[root];
        int64_t &count = needed[root];
        count = std::max<int64_t>(
            count, llvm::divideCeil(factor.size, multiple * blocks.lookup(root)));
      }
      ++item;
    }
  bool changed = false;
  for (auto [root, count] : needed) {
    if (closedExtents.contains(root))
      continue;
    // extent = multiple * blocks * count = ratio * unit
    Ratio unit(denominators[root] * blocks.lookup(root) * count, common[root]);
    auto [it, isNew] = units.try_emplace(root, unit);
    changed |= isNew || unit < it->second;
    if (unit < it->second)
      it->second = unit;
  }
  return changed;
}

int64_t Propagation::getExtent(int node, int factor) const {
  if (firstFactor.empty())
    return 0;
  int item = firstFactor[node] + factor;
  auto unit = units.find(classOf[item]);
  if (unit == units.end())
    return 0;
  Ratio extent = unit->second * ratios[item];
  return extent.denominator == 1 ? extent.numerator : 0;
}

bool Propagation::tightenExtents(const Solution &solution) {
  if (units.empty())
    return false;
  // What splits each class in the solution, as one common multiple.
  llvm::DenseMap<int, int64_t> blocks;
  std::vector<char> split(classOf.size(), false);
  auto add = [&](int node, const TensorFactors &tensor, LayoutAttr layout) {
    for (auto [factors, dim] : llvm::zip_equal(tensor, layout.getDims()))
      if (factors.size() == 1 && dim.getNumBlocks() != 1) {
        int item = firstFactor[node] + factors.front();
        split[item] = true;
        int64_t &multiple = blocks.try_emplace(classOf[item], 1).first->second;
        multiple = std::lcm(multiple, dim.getNumBlocks());
      }
  };
  for (auto [id, node] : llvm::enumerate(nodes)) {
    const Label &label = node.labels[solution.labels[id]];
    if (node.kind == NodeKind::Fixed)
      continue;
    for (auto [tensor, layout] : llvm::zip(node.rule.operands, label.operands))
      add(id, tensor, layout);
    for (auto [tensor, layout] : llvm::zip(node.rule.results, label.results))
      add(id, tensor, layout);
  }
  return setUnits(blocks, split);
}
