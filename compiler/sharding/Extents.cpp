// Padded extents of connected dims.

#include "compiler/sharding/Extents.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;
using graph::TensorFactors;

namespace {
/// A dim of a value, at its def and at one use.
struct Link {
  /// The sort key: ratio is not one, the ratio, and the place of the value.
  std::tuple<bool, int64_t, int64_t, uint64_t, uint64_t, unsigned, unsigned,
             size_t>
      place;
  int given, taken; // items of the def and of the use
  Ratio step;       // extent at the use = step * extent at the def
};
} // namespace

/// Links the dims of each value at its def and at its uses. Links with ratio
/// one come first, since they never disagree; the order of the others does not
/// depend on the order of the ops.
static std::vector<Link> findLinks(const SideTable &table,
                                   ArrayRef<int> firstFactor) {
  std::vector<Link> links;
  for (const TensorValue &value : table.values) {
    const graph::ShardingRule &giver = table.nodes[value.def].rule;
    for (const Use &use : value.uses) {
      const graph::ShardingRule &taker = table.nodes[use.node].rule;
      for (auto [d, from, to] : llvm::enumerate(giver.results[value.result],
                                                taker.operands[use.operand])) {
        if (from.size() != 1 || to.size() != 1)
          continue;
        // extent at the def * the def's scale = extent at the use * the use's
        // scale
        Ratio step(giver.getBorder(true, value.result, d).scale,
                   taker.getBorder(false, use.operand, d).scale);
        bool isOne = step.numerator == step.denominator;
        links.push_back(
            {{!isOne, step.numerator, step.denominator,
              table.nodes[value.def].hash, table.nodes[use.node].hash,
              value.result, use.operand, d},
             firstFactor[value.def] + from.front(),
             firstFactor[use.node] + to.front(),
             step});
      }
    }
  }
  llvm::stable_sort(
      links, [](const Link &a, const Link &b) { return a.place < b.place; });
  return links;
}

void Extents::connect(const SideTable &table) {
  for (const Node &node : table.nodes) {
    firstFactor.push_back(classOf.size());
    for (size_t f = 0; f < node.rule.factors.size(); ++f)
      classOf.push_back(classOf.size());
  }
  // Union-find. Per item: its extent divided by that of its parent. The smaller
  // class goes below the larger, so that paths to the root stay short.
  SmallVector<Ratio, 0> over(classOf.size());
  SmallVector<int, 0> sizes(classOf.size(), 1);
  auto find = [&](int item) {
    Ratio ratio;
    for (; classOf[item] != item; item = classOf[item])
      ratio = ratio * over[item];
    return std::pair(item, ratio);
  };
  for (const Link &link : findLinks(table, firstFactor)) {
    auto [given, fromRoot] = find(link.given);
    auto [taken, toRoot] = find(link.taken);
    // If two paths disagree on the ratio, the value of the later link is
    // resharded.
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
  for (size_t item = 0; item < classOf.size(); ++item) {
    auto [root, ratio] = find(item);
    roots.push_back(root);
    ratios.push_back(ratio);
  }
  classOf = roots;
}

/// Takes the extents that fixed neighbours determine.
void Extents::keepFixed(const SideTable &table) {
  for (const Node &node : table.nodes) {
    auto keep = [&](const TensorFactors &tensor, LayoutAttr layout) {
      for (auto [factors, dim] : llvm::zip_equal(tensor, layout.getDims()))
        if (factors.size() == 1 && dim.getPadded()) {
          int item = itemOf(node, factors.front());
          units[classOf[item]] =
              Ratio(dim.getPadded(), 1) * ratios[item].inverse();
          fixed.insert(classOf[item]);
        }
    };
    for (auto [tensor, layout] :
         llvm::zip(node.rule.results, node.fixedResults))
      keep(tensor, layout);
    for (auto [tensor, layout] :
         llvm::zip(node.rule.operands, node.fixedOperands))
      keep(tensor, layout);
  }
}

Extents::Extents(const SideTable &table, const Reach &reach) {
  connect(table);
  keepFixed(table);
  // The sub-axes that may split each class, and the items that may be split.
  ArrayRef<AxisRef> subAxes = table.subAxes;
  llvm::DenseMap<int, uint32_t> splitting;
  std::vector<char> maySplit(classOf.size(), false);
  for (const Node &node : table.nodes)
    for (size_t subAxis = 0; subAxis < subAxes.size(); ++subAxis)
      for (const Arrival &arrival : reach.of(node).arrivals[subAxis]) {
        int item = itemOf(node, arrival.factor);
        splitting[classOf[item]] |= 1u << subAxis;
        maySplit[item] = true;
      }
  llvm::DenseMap<int, int64_t> blocks;
  for (auto [root, mask] : splitting) {
    int64_t count = 1;
    for (size_t subAxis = 0; subAxis < subAxes.size(); ++subAxis)
      if (mask >> subAxis & 1)
        count *= subAxes[subAxis].size;
    blocks[root] = count;
  }
  setUnits(table, blocks, maySplit);
}

/// Sets the unit of each class of connected dims to the smallest one such that
/// the extent of every item in `split` is at least the item's dim and a
/// multiple of the class's number of blocks in `blocks`. A unit that is already
/// smaller stays. Returns true if some class got its first unit or a smaller
/// one.
bool Extents::setUnits(const SideTable &table,
                       const llvm::DenseMap<int, int64_t> &blocks,
                       ArrayRef<char> split) {
  // The extents of a class are integer multiples of one number: their ratios
  // over a common denominator, without a common factor.
  llvm::DenseMap<int, int64_t> denominators, common, needed;
  for (size_t item = 0; item < classOf.size(); ++item)
    if (split[item]) {
      int64_t &multiple =
          denominators.try_emplace(classOf[item], 1).first->second;
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
  for (const Node &node : table.nodes)
    for (const graph::Factor &factor : node.rule.factors) {
      if (split[item]) {
        int root = classOf[item];
        int64_t multiple = multipleOf(item) / common[root];
        int64_t &count = needed[root];
        count = std::max<int64_t>(
            count,
            llvm::divideCeil(factor.size, multiple * blocks.lookup(root)));
      }
      ++item;
    }
  bool changed = false;
  for (auto [root, count] : needed) {
    if (fixed.contains(root))
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

int64_t Extents::get(int node, int factor) const {
  int item = firstFactor[node] + factor;
  auto unit = units.find(classOf[item]);
  if (unit == units.end())
    return 0;
  Ratio extent = unit->second * ratios[item];
  return extent.denominator == 1 ? extent.numerator : 0;
}

std::optional<Extents> Extents::tightened(const SideTable &table,
                                          const Candidates &candidates,
                                          ArrayRef<int> chosen) const {
  if (units.empty())
    return std::nullopt;
  // Per class, the least common multiple of the numbers of blocks in the
  // solution.
  llvm::DenseMap<int, int64_t> blocks;
  std::vector<char> split(classOf.size(), false);
  auto add = [&](const Node &node, const TensorFactors &tensor,
                 LayoutAttr layout) {
    for (auto [factors, dim] : llvm::zip_equal(tensor, layout.getDims()))
      if (factors.size() == 1 && dim.getNumBlocks() != 1) {
        int item = itemOf(node, factors.front());
        split[item] = true;
        int64_t &multiple = blocks.try_emplace(classOf[item], 1).first->second;
        multiple = std::lcm(multiple, dim.getNumBlocks());
      }
  };
  for (const Node &node : table.nodes) {
    const Candidate &candidate = candidates[node.number][chosen[node.number]];
    if (node.kind == NodeKind::Fixed)
      continue;
    for (auto [tensor, layout] :
         llvm::zip(node.rule.operands, candidate.operands))
      add(node, tensor, layout);
    for (auto [tensor, layout] :
         llvm::zip(node.rule.results, candidate.results))
      add(node, tensor, layout);
  }
  Extents result = *this;
  if (!result.setUnits(table, blocks, split))
    return std::nullopt;
  return result;
}
