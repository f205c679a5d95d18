// Enumerates the candidates of nodes: the layouts of their operands and
// results.

#include "compiler/sharding/Candidates.h"

#include "compiler/sharding/Why.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;
using graph::FactorKind;
using graph::PartialPass;
using graph::TensorFactors;
using sharding::AxisRef;
using sharding::DimAttr;
using sharding::Fill;
using sharding::LayoutAttr;
using sharding::ReductionKind;

std::optional<Candidate>
polyrank::sharding::makeCandidate(const SideTable &table, const Extents *shared,
                                  const Node &node, ArrayRef<Choice> choices) {
  const graph::ShardingRule &rule = node.rule;
  MeshAttr mesh = table.mesh;
  ArrayRef<AxisRef> subAxes = table.subAxes;
  size_t numFactors = rule.factors.size();
  Candidate candidate;
  candidate.choices.assign(choices.begin(), choices.end());

  // The axes of each factor, major to minor, and its padded extent.
  SmallVector<SmallVector<int>> splitting(numFactors);
  for (auto [subAxis, choice] : llvm::enumerate(choices))
    if (choice.kind == Choice::Split)
      splitting[choice.factor].push_back(subAxis);
  SmallVector<SmallVector<AxisRef>> axes(numFactors);
  SmallVector<int64_t> padded(numFactors, 0), extents(numFactors, 0);
  for (size_t f = 0; f < numFactors; ++f) {
    const graph::Factor &factor = rule.factors[f];
    if (splitting[f].empty())
      continue;
    if (factor.kind == FactorKind::Replicated)
      return std::nullopt;
    candidate.composite |= factor.kind == FactorKind::Composite;
    llvm::sort(splitting[f],
               [&](int a, int b) { return table.order[a] < table.order[b]; });
    for (int subAxis : splitting[f])
      axes[f].push_back(subAxes[subAxis]);
    int64_t blocks = sharding::product(axes[f]);
    int64_t extent = shared ? shared->get(node.number, f) : 0;
    if (!extent)
      extent = llvm::alignTo(factor.size, blocks);
    // No device may hold nothing but padding.
    if (factor.size < blocks || extent < factor.size || extent % blocks)
      return std::nullopt;
    extents[f] = extent;
    if (extent != factor.size)
      padded[f] = extent;
  }

  // True if some result is reduced over the factor, padding included.
  auto isReduced = [&](int factor) {
    if (rule.isResultOnly(factor) ||
        rule.factors[factor].kind == FactorKind::Composite)
      return false;
    for (size_t r = 0; r < rule.results.size(); ++r)
      if (!rule.resultHas(r, factor))
        return true;
    return false;
  };
  // At the boundary padding holds zeros, and carried values come from the
  // boundary.
  bool holdsZeros =
      node.kind == NodeKind::Boundary || node.kind == NodeKind::Carry;
  auto layDims = [&](const TensorFactors &tensor, bool isOperand,
                     unsigned number) -> std::optional<SmallVector<DimAttr>> {
    SmallVector<DimAttr> dims;
    for (auto [d, factors] : llvm::enumerate(tensor)) {
      if (factors.size() == 1 &&
          rule.factors[factors.front()].kind == FactorKind::Halo) {
        int f = factors.front();
        int value = isOperand ? node.operands[number] : node.results[number];
        dims.push_back(rule.layDim(!isOperand, number, d,
                                   table.values[value].getType().getDimSize(d),
                                   mesh, axes[f], extents[f]));
        continue;
      }
      if (factors.size() == 1) {
        int f = factors.front();
        Fill fill = Fill::Undefined;
        if (padded[f] && holdsZeros)
          fill = Fill::Zero;
        else if (padded[f] && isOperand && isReduced(f))
          fill = sharding::identityFill(rule.factors[f].reduction);
        dims.push_back(DimAttr::get(mesh, axes[f], padded[f], fill));
        continue;
      }
      SmallVector<AxisRef> all;
      SmallVector<int64_t> sizes;
      for (int f : factors) {
        if (padded[f])
          return std::nullopt;
        llvm::append_range(all, axes[f]);
        sizes.push_back(rule.factors[f].size);
      }
      DimAttr dim = DimAttr::get(mesh, all);
      if (!all.empty()) {
        auto projected = graph::projectAxes(dim, sizes);
        if (!projected)
          return std::nullopt;
        for (auto [f, list] : llvm::zip_equal(factors, *projected))
          if (sharding::merged(mesh, list) != sharding::merged(mesh, axes[f]))
            return std::nullopt;
      }
      dims.push_back(dim);
    }
    return dims;
  };

  auto lay = [&](const TensorFactors &tensor, bool isOperand,
                 unsigned number) -> LayoutAttr {
    auto dims = layDims(tensor, isOperand, number);
    if (!dims)
      return {};
    SmallVector<AxisRef> partial;
    std::optional<ReductionKind> kind;
    bool agree = true;
    auto add = [&](int subAxis, ReductionKind reduction) {
      agree &= !kind || *kind == reduction;
      kind = reduction;
      partial.push_back(subAxes[subAxis]);
    };
    for (auto [subAxis, choice] : llvm::enumerate(choices)) {
      if (choice.kind == Choice::Pass &&
          (!isOperand || choice.operands >> number & 1))
        add(subAxis, choice.reduction);
      if (choice.kind == Choice::Split && !isOperand &&
          !rule.resultHas(number, choice.factor) &&
          !rule.isResultOnly(choice.factor) &&
          rule.factors[choice.factor].kind != FactorKind::Composite &&
          rule.factors[choice.factor].kind != FactorKind::Parallel)
        add(subAxis, rule.factors[choice.factor].reduction);
    }
    if (!agree)
      return {};
    return LayoutAttr::get(mesh, *dims, kind.value_or(ReductionKind::Sum),
                           partial);
  };
  for (auto [i, tensor] : llvm::enumerate(rule.operands)) {
    candidate.operands.push_back(lay(tensor, true, i));
    if (!candidate.operands.back())
      return std::nullopt;
  }
  for (auto [i, tensor] : llvm::enumerate(rule.results)) {
    candidate.results.push_back(lay(tensor, false, i));
    if (!candidate.results.back())
      return std::nullopt;
  }
  return candidate;
}

SmallVector<Choice> polyrank::sharding::choicesOf(const SideTable &table,
                                                  const Reach &reach,
                                                  const Node &node,
                                                  int subAxis) {
  SmallVector<Choice> choices;
  bool isFixed = false;
  for (const Arrival &arrival : reach.of(node).arrivals[subAxis]) {
    choices.push_back({Choice::Split, arrival.factor});
    isFixed |= node.constraint >= 0 && arrival.distance == 0;
  }
  if (isFixed)
    return choices;
  choices.push_back({});
  // An op with several results would pass the partial on as several, each with
  // its own reduction: the gradient of a norm's input, for example, would stay
  // partial in the gradients of all earlier parameters. So it is reduced before
  // the op.
  if (node.kind == NodeKind::Op && node.results.size() > 1)
    return choices;
  for (ReductionKind kind :
       {ReductionKind::Sum, ReductionKind::Max, ReductionKind::Min}) {
    uint8_t bit = 1u << static_cast<int>(kind);
    uint32_t together = 0, any = 0;
    bool someTogether = false;
    for (auto [i, id] : llvm::enumerate(node.operands)) {
      bool may = reach.partials[id][subAxis] & bit;
      switch (node.rule.getPass(kind, i)) {
      case PartialPass::None:
        break;
      case PartialPass::Alone:
        if (may)
          choices.push_back({Choice::Pass, -1, kind, 1u << i});
        break;
      case PartialPass::Together:
        together |= 1u << i;
        someTogether |= may;
        break;
      case PartialPass::Any:
        any |= may ? 1u << i : 0;
        break;
      }
    }
    if (someTogether)
      choices.push_back({Choice::Pass, -1, kind, together});
    for (uint32_t set = any; set; set = (set - 1) & any)
      choices.push_back({Choice::Pass, -1, kind, set});
  }
  return choices;
}

static void setCost(const SideTable &table, const Reach &reach,
                    const Node &node, Candidate &candidate) {
  Objective &cost = candidate.cost;
  const NodeReach &reached = reach.of(node);
  int64_t shares = 1;
  for (auto [subAxis, choice] : llvm::enumerate(candidate.choices)) {
    if (choice.kind == Choice::Split)
      shares *= table.subAxes[subAxis].size;
    if (choice.kind == Choice::Pass)
      ++cost.passes;
    // A sub-axis that passes as a partial counts as used.
    if (choice.kind == Choice::None && !node.isUpdate &&
        reached.level[subAxis] >= 0 &&
        llvm::any_of(reached.arrivals[subAxis], [&](const Arrival &arrival) {
          return !reached.isFree[arrival.factor];
        }))
      ++cost.violations[reached.level[subAxis]];
  }
  if (node.kind == NodeKind::Op)
    cost.flops = llvm::divideCeil(cast<graph::GraphOp>(node.op).getCost().flops,
                                  shares) *
                 node.executions;
  // A use in another layout than the parameter's constraint is a violation.
  for (auto [i, id] : llvm::enumerate(node.operands)) {
    const Node &def = table.nodes[table.values[id].def];
    if (def.constraint < 0 || !table.constraints[def.constraint].isParameter)
      continue;
    const Constraint &constraint = table.constraints[def.constraint];
    bool honoured = true;
    for (auto [wanted, taken] : llvm::zip_equal(
             constraint.layout.getDims(), candidate.operands[i].getDims()))
      for (int subAxis : table.numbers(wanted.getAxes()))
        honoured &= llvm::is_contained(table.numbers(taken.getAxes()), subAxis);
    if (!honoured)
      ++cost.violations[constraint.level];
  }
  std::string text;
  llvm::raw_string_ostream out(text);
  out << node.hash;
  for (LayoutAttr layout : candidate.operands)
    out << layout.toString();
  for (LayoutAttr layout : candidate.results)
    out << layout.toString();
  cost.tie = llvm::xxh3_64bits(out.str()) >> 34;
}

/// The candidate of a node without a choice: the given layouts; replicated for
/// a source, whose users choose.
static Candidate candidateOfFixed(const SideTable &table, const Node &node) {
  Candidate candidate;
  candidate.choices.resize(table.subAxes.size());
  candidate.operands.assign(node.fixedOperands.begin(),
                            node.fixedOperands.end());
  candidate.results.assign(node.fixedResults.begin(), node.fixedResults.end());
  if (node.kind == NodeKind::Source)
    for (int id : node.results)
      candidate.results.push_back(LayoutAttr::getReplicated(
          table.mesh, table.values[id].getType().getRank()));
  return candidate;
}

/// Emits an error if a constraint cannot even split the dim of its own node.
static LogicalResult checkConstraint(const SideTable &table, const Reach &reach,
                                     const Node &node) {
  if (node.constraint < 0)
    return success();
  const Constraint &constraint = table.constraints[node.constraint];
  for (auto [d, dim] : llvm::enumerate(constraint.layout.getDims()))
    for (int subAxis : table.numbers(dim.getAxes()))
      if (llvm::none_of(
              reach.of(node).arrivals[subAxis],
              [](const Arrival &arrival) { return arrival.distance == 0; }))
        return node.op->emitError()
               << "constraint " << constraint.text << ": dim " << d << " of "
               << node.name << " cannot be split over "
               << describe(table.mesh, dim.getAxes())
               << ": it has fewer elements than there are blocks";
  return success();
}

/// Enumerates all combinations of the node's choices for each sub-axis.
static void enumerateNode(const SideTable &table, const Reach &reach,
                          const Extents &extents, const Node &node,
                          CompositeCosts &composites,
                          SmallVector<Candidate, 0> &candidates) {
  size_t numSubAxes = table.subAxes.size();
  SmallVector<SmallVector<Choice>> options;
  for (size_t subAxis = 0; subAxis < numSubAxes; ++subAxis)
    options.push_back(choicesOf(table, reach, node, subAxis));
  SmallVector<Choice> chosen(numSubAxes);
  std::function<void(size_t)> choose = [&](size_t subAxis) {
    if (subAxis < numSubAxes) {
      for (const Choice &choice : options[subAxis]) {
        chosen[subAxis] = choice;
        choose(subAxis + 1);
      }
      return;
    }
    std::optional<Candidate> candidate =
        makeCandidate(table, &extents, node, chosen);
    if (!candidate)
      return;
    setCost(table, reach, node, *candidate);
    if (candidate->composite) {
      std::optional<int64_t> bytes =
          composites.getBytes(table.mesh, node.op, *candidate);
      if (!bytes)
        return;
      candidate->cost.bytes = *bytes * node.executions;
    }
    candidates.push_back(std::move(*candidate));
  };
  choose(0);
}

FailureOr<Candidates> polyrank::sharding::enumerateCandidates(
    const SideTable &table, const Reach &reach, const Extents &extents,
    CompositeCosts &composites) {
  Candidates result(table.nodes.size());
  for (const Node &node : table.nodes) {
    SmallVector<Candidate, 0> &candidates = result[node.number];
    if (node.kind == NodeKind::Fixed || node.kind == NodeKind::Source) {
      candidates.push_back(candidateOfFixed(table, node));
      continue;
    }
    if (failed(checkConstraint(table, reach, node)))
      return failure();
    enumerateNode(table, reach, extents, node, composites, candidates);
    if (candidates.empty()) {
      auto error = node.op->emitError() << node.name << " cannot be laid out";
      if (node.constraint >= 0)
        error << " as the constraint "
              << table.constraints[node.constraint].text << " says";
      return failure();
    }
    // Violations depend on one node alone, so only candidates with the fewest
    // can be part of an optimum.
    auto violations = [](const Candidate &candidate) {
      return candidate.cost.violations;
    };
    auto least = violations(*llvm::min_element(
        candidates, [&](const Candidate &a, const Candidate &b) {
          return violations(a) < violations(b);
        }));
    llvm::erase_if(candidates, [&](const Candidate &candidate) {
      return violations(candidate) != least;
    });
    llvm::sort(candidates, [](const Candidate &a, const Candidate &b) {
      return a.cost < b.cost;
    });
  }
  return result;
}
