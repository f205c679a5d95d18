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

namespace {
/// Lays out the operands and results of a node for one choice of each sub-axis.
class CandidateMaker {
public:
  CandidateMaker(const SideTable &table, const Node &node,
                 ArrayRef<Choice> choices)
      : table(table), rule(node.rule), node(node), choices(choices),
        // At the boundary padding holds zeros, and carried values come from the
        // boundary.
        holdsZeros(node.kind == NodeKind::Boundary ||
                   node.kind == NodeKind::Carry) {}

  std::optional<Candidate> make(const Extents *shared);

private:
  /// Finds the axes of each factor and its extent; returns false if the factor
  /// cannot be split so.
  bool splitFactors(const Extents *shared);
  bool splitFactor(size_t f, const Extents *shared);
  /// Returns true if some result is reduced over the factor, padding included.
  bool isReduced(int factor) const;
  std::optional<DimAttr> layDim(const TensorFactors &tensor, size_t d,
                                bool isOperand, unsigned number) const;
  /// A dim that one factor makes up.
  DimAttr layWhole(int factor, bool isOperand) const;
  /// A dim that several factors make up, major to minor.
  std::optional<DimAttr> layParts(ArrayRef<int> factors) const;
  /// The layout of an operand or a result; null if there is none.
  LayoutAttr lay(const TensorFactors &tensor, bool isOperand,
                 unsigned number) const;

  const SideTable &table;
  const graph::ShardingRule &rule;
  const Node &node;
  ArrayRef<Choice> choices;
  bool holdsZeros;
  /// By factor: its axes, major to minor, its padded extent (0: not padded) and
  /// its extent (0: not split).
  SmallVector<SmallVector<AxisRef>> axes;
  SmallVector<int64_t> padded, extents;
  bool hasComposite = false;
};
} // namespace

bool CandidateMaker::splitFactor(size_t f, const Extents *shared) {
  SmallVector<int> splitting;
  for (auto [subAxis, choice] : llvm::enumerate(choices))
    if (choice.kind == Choice::Split && choice.factor == static_cast<int>(f))
      splitting.push_back(subAxis);
  if (splitting.empty())
    return true;
  const graph::Factor &factor = rule.factors[f];
  if (factor.kind == FactorKind::Replicated)
    return false;
  hasComposite |= factor.kind == FactorKind::Composite;
  llvm::sort(splitting,
             [&](int a, int b) { return table.order[a] < table.order[b]; });
  for (int subAxis : splitting)
    axes[f].push_back(table.subAxes[subAxis]);
  int64_t blocks = sharding::product(axes[f]);
  int64_t extent = shared ? shared->get(node.number, f) : 0;
  if (!extent)
    extent = llvm::alignTo(factor.size, blocks);
  // No device may hold nothing but padding.
  if (factor.size < blocks || extent < factor.size || extent % blocks)
    return false;
  extents[f] = extent;
  if (extent != factor.size)
    padded[f] = extent;
  return true;
}

bool CandidateMaker::splitFactors(const Extents *shared) {
  size_t numFactors = rule.factors.size();
  axes.resize(numFactors);
  padded.assign(numFactors, 0);
  extents.assign(numFactors, 0);
  for (size_t f = 0; f < numFactors; ++f)
    if (!splitFactor(f, shared))
      return false;
  return true;
}

bool CandidateMaker::isReduced(int factor) const {
  if (rule.isResultOnly(factor) ||
      rule.factors[factor].kind == FactorKind::Composite)
    return false;
  for (size_t r = 0; r < rule.results.size(); ++r)
    if (!rule.resultHas(r, factor))
      return true;
  return false;
}

DimAttr CandidateMaker::layWhole(int factor, bool isOperand) const {
  Fill fill = Fill::Undefined;
  if (padded[factor] && holdsZeros)
    fill = Fill::Zero;
  else if (padded[factor] && isOperand && isReduced(factor))
    fill = sharding::identityFill(rule.factors[factor].reduction);
  return DimAttr::get(table.mesh, axes[factor], padded[factor], fill);
}

std::optional<DimAttr> CandidateMaker::layParts(ArrayRef<int> factors) const {
  SmallVector<AxisRef> all;
  SmallVector<int64_t> sizes;
  for (int f : factors) {
    if (padded[f])
      return std::nullopt;
    llvm::append_range(all, axes[f]);
    sizes.push_back(rule.factors[f].size);
  }
  DimAttr dim = DimAttr::get(table.mesh, all);
  if (all.empty())
    return dim;
  auto projected = graph::projectAxes(dim, sizes);
  if (!projected)
    return std::nullopt;
  for (auto [f, list] : llvm::zip_equal(factors, *projected))
    if (sharding::merged(table.mesh, list) !=
        sharding::merged(table.mesh, axes[f]))
      return std::nullopt;
  return dim;
}

std::optional<DimAttr> CandidateMaker::layDim(const TensorFactors &tensor,
                                              size_t d, bool isOperand,
                                              unsigned number) const {
  const auto &factors = tensor[d];
  if (factors.size() != 1)
    return layParts(factors);
  int f = factors.front();
  if (rule.factors[f].kind != FactorKind::Halo)
    return layWhole(f, isOperand);
  int value = isOperand ? node.operands[number] : node.results[number];
  return rule.layDim(!isOperand, number, d,
                     table.values[value].getType().getDimSize(d), table.mesh,
                     axes[f], extents[f]);
}

LayoutAttr CandidateMaker::lay(const TensorFactors &tensor, bool isOperand,
                               unsigned number) const {
  SmallVector<DimAttr> dims;
  for (size_t d = 0; d < tensor.size(); ++d) {
    auto dim = layDim(tensor, d, isOperand, number);
    if (!dim)
      return {};
    dims.push_back(*dim);
  }
  SmallVector<AxisRef> partial;
  std::optional<ReductionKind> kind;
  bool agree = true;
  auto add = [&](int subAxis, ReductionKind reduction) {
    agree &= !kind || *kind == reduction;
    kind = reduction;
    partial.push_back(table.subAxes[subAxis]);
  };
  for (auto [subAxis, choice] : llvm::enumerate(choices)) {
    if (choice.kind == Choice::Pass &&
        (!isOperand || choice.operands >> number & 1))
      add(subAxis, choice.reduction);
    if (!isOperand && makesPartial(rule, choice, number))
      add(subAxis, rule.factors[choice.factor].reduction);
  }
  if (!agree)
    return {};
  return LayoutAttr::get(table.mesh, dims, kind.value_or(ReductionKind::Sum),
                         partial);
}

std::optional<Candidate> CandidateMaker::make(const Extents *shared) {
  if (!splitFactors(shared))
    return std::nullopt;
  Candidate candidate;
  candidate.choices.assign(choices.begin(), choices.end());
  candidate.composite = hasComposite;
  for (auto [i, tensor] : llvm::enumerate(rule.operands)) {
    candidate.operands.push_back(lay(tensor, /*isOperand=*/true, i));
    if (!candidate.operands.back())
      return std::nullopt;
  }
  for (auto [i, tensor] : llvm::enumerate(rule.results)) {
    candidate.results.push_back(lay(tensor, /*isOperand=*/false, i));
    if (!candidate.results.back())
      return std::nullopt;
  }
  return candidate;
}

bool polyrank::sharding::makesPartial(const graph::ShardingRule &rule,
                                      const Choice &choice, unsigned result) {
  if (choice.kind != Choice::Split || rule.resultHas(result, choice.factor) ||
      rule.isResultOnly(choice.factor))
    return false;
  FactorKind kind = rule.factors[choice.factor].kind;
  return kind == FactorKind::Composite ? choice.staysPartial
                                       : kind != FactorKind::Parallel;
}

std::optional<Candidate>
polyrank::sharding::makeCandidate(const SideTable &table, const Extents *shared,
                                  const Node &node, ArrayRef<Choice> choices) {
  return CandidateMaker(table, node, choices).make(shared);
}

SmallVector<Choice> polyrank::sharding::choicesOf(const SideTable &table,
                                                  const Reach &reach,
                                                  const Node &node,
                                                  int subAxis) {
  SmallVector<Choice> choices;
  bool isFixed = false;
  for (const Arrival &arrival : reach.of(node).arrivals[subAxis]) {
    choices.push_back({Choice::Split, arrival.factor});
    if (node.rule.factors[arrival.factor].addsUp) {
      choices.push_back({Choice::Split, arrival.factor});
      choices.back().staysPartial = true;
    }
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
