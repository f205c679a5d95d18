// Counts which factors of which ops the programs split, padded, and split
// together with a partial of each kind.

#include "test/random/Coverage.h"

#include <set>

#include "test/random/Program.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::test;
using graph::FactorKind;
using graph::ShardingRule;
using sharding::ReductionKind;

static const char *const aspectNames[Coverage::numAspects] = {
    "split", "sub-axis", "padded", "sum", "max", "min"};

static std::string getRole(const ShardingRule &rule, int factor) {
  std::string text = graph::stringify(rule.factors[factor].kind).str() + " ";
  auto add = [&](unsigned count, auto has) {
    std::string list;
    for (unsigned i = 0; i < count; ++i)
      if (has(i))
        list += (list.empty() ? "" : ",") + std::to_string(i);
    text += list;
  };
  add(rule.operands.size(),
      [&](unsigned i) { return rule.operandHas(i, factor); });
  text += "->";
  add(rule.results.size(),
      [&](unsigned i) { return rule.resultHas(i, factor); });
  return text;
}

/// Returns true if every dim with the factor has only this factor.
static bool isWholeDim(const ShardingRule &rule, int factor) {
  for (const auto *tensors : {&rule.operands, &rule.results})
    for (const graph::TensorFactors &tensor : *tensors)
      for (const graph::DimFactors &dim : tensor)
        if (llvm::is_contained(dim, factor) && dim.size() > 1)
          return false;
  return true;
}

/// Returns why no layout can have this; "" if one can.
static std::string whyImpossible(const ShardingRule &rule, int factor,
                                 Coverage::Aspect aspect) {
  const graph::Factor &entry = rule.factors[factor];
  if (entry.kind == FactorKind::Composite ||
      entry.kind == FactorKind::Replicated)
    return "a " + graph::stringify(entry.kind).str() +
           " factor is neither split nor padded";
  if (aspect == Coverage::Padded && !isWholeDim(rule, factor))
    return "a padded dim passes only as one whole factor";
  if (aspect < Coverage::PartialSum)
    return "";
  auto kind = static_cast<ReductionKind>(aspect - Coverage::PartialSum);
  // A kind that an operand passes, or that the split of a factor makes.
  bool passes = false, makes = false;
  for (unsigned i = 0; i < rule.operands.size(); ++i)
    passes |= rule.getPass(kind, i) != graph::PartialPass::None;
  for (auto [i, other] : llvm::enumerate(rule.factors))
    makes |= (other.kind == FactorKind::Reduction ||
              other.kind == FactorKind::Indexed) &&
             other.reduction == kind && other.size > 1 && !rule.isResultOnly(i);
  if (!passes && !makes)
    return std::string("the op neither passes nor makes a partial ") +
           aspectNames[aspect];
  bool makesOwn = (entry.kind == FactorKind::Reduction ||
                   entry.kind == FactorKind::Indexed) &&
                  !rule.isResultOnly(factor);
  if (makesOwn && entry.reduction != kind)
    return "its split makes results partial in another way, and a value is "
           "partial in one";
  return "";
}

void Coverage::recordOp(graph::GraphOp op) {
  std::string name = op->getName().stripDialect().str();
  ++ops[name];
  ShardingRule rule = op.getShardingRule();
  std::vector<std::array<bool, numAspects>> seen(rule.factors.size());
  std::array<bool, 3> partial{};
  auto look = [&](Value value, const graph::TensorFactors &tensor) {
    sharding::LayoutAttr layout = sharding::getLayout(value);
    if (layout.isPartial())
      partial[static_cast<int>(layout.getPartialKind())] = true;
    for (auto [d, dim] : llvm::enumerate(tensor)) {
      if (dim.empty()) // of one element, or of a token
        continue;
      SmallVector<int64_t> sizes;
      for (int factor : dim) {
        sizes.push_back(rule.factors[factor].size);
        seen[factor][Padded] |= layout.getDim(d).getPadded() != 0;
      }
      auto axes = graph::projectAxes(layout.getDim(d), sizes);
      for (auto [factor, list] : llvm::zip_equal(dim, *axes))
        for (sharding::AxisRef ref : list) {
          int64_t whole = layout.getMesh().getAxisSizes()[ref.axis];
          seen[factor][ref.size == whole ? Split : SubAxis] = true;
        }
    }
  };
  for (auto [value, tensor] : llvm::zip_equal(op->getOperands(), rule.operands))
    look(value, tensor);
  for (auto [value, tensor] : llvm::zip_equal(op->getResults(), rule.results))
    look(value, tensor);
  for (auto [i, aspects] : llvm::enumerate(seen)) {
    if (rule.factors[i].size == 1)
      continue;
    Row &row = rows[{name, getRole(rule, i)}];
    for (int kind = 0; kind < 3; ++kind)
      aspects[PartialSum + kind] =
          partial[kind] && (aspects[Split] || aspects[SubAxis]);
    for (int aspect = 0; aspect < numAspects; ++aspect) {
      Cell &cell = row[aspect];
      cell.count += aspects[aspect];
      std::string reason = whyImpossible(rule, i, static_cast<Aspect>(aspect));
      cell.isPossible |= reason.empty();
      if (!reason.empty())
        cell.reason = reason;
    }
  }
}

void Coverage::recordModel(ModuleOp module) {
  module.walk(
      [&](graph::DetachOp op) { ++ops[op->getName().stripDialect().str()]; });
}

void Coverage::record(ModuleOp module) {
  module.walk([&](graph::GraphOp op) {
    if (llvm::all_of(op->getResults(),
                     [](Value value) { return !!sharding::getLayout(value); }))
      recordOp(op);
  });
}

std::vector<std::string> Coverage::print() const {
  std::printf("How often the programs had a factor split, split over a "
              "sub-axis, padded, and split beside a partial\n%-20s %-26s",
              "op", "factor: operands->results");
  for (const char *name : aspectNames)
    std::printf(" %8s", name);
  std::printf("\n");
  std::vector<std::string> missing;
  std::map<std::string, int64_t> reasons;
  int64_t filled = 0, possible = 0;
  for (const auto &[key, row] : rows) {
    const auto &[op, role] = key;
    std::printf("%-20s %-26s", op.c_str(), role.c_str());
    for (int aspect = 0; aspect < numAspects; ++aspect) {
      const Cell &cell = row[aspect];
      std::printf(" %8s", cell.isPossible || cell.count
                              ? std::to_string(cell.count).c_str()
                              : "-");
      possible += cell.isPossible;
      filled += cell.isPossible && cell.count;
      if (!cell.isPossible)
        ++reasons[cell.reason];
      else if (!cell.count)
        missing.push_back(op + " " + role + ": " + aspectNames[aspect]);
    }
    std::printf("\n");
  }
  std::printf("\n%ld of %ld cells (%.1f %%)\n", filled, possible,
              possible ? 100.0 * double(filled) / double(possible) : 0.0);
  std::printf("Cells that no layout can fill:\n");
  for (const auto &[reason, count] : reasons)
    std::printf("%5ld: %s\n", count, reason.c_str());

  std::set<std::string> entries;
  for (const OpEntry &entry : opTable())
    if (!entry.isOfLayouts && entries.insert(entry.op).second &&
        !ops.count(entry.op))
      missing.push_back(std::string("op ") + entry.op + " is in no program");
  for (const std::string &cell : missing)
    std::printf("missing: %s\n", cell.c_str());
  return missing;
}

bool Coverage::hasOpsOfLayouts() const {
  return llvm::all_of(opTable(), [&](const OpEntry &entry) {
    return !entry.isOfLayouts || ops.count(entry.op);
  });
}

std::vector<std::string> Coverage::findUnknownOps(MLIRContext &context) {
  std::set<std::string> known;
  for (const OpEntry &entry : opTable())
    known.insert(entry.op);
  std::vector<std::string> unknown;
  for (RegisteredOperationName name : context.getRegisteredOperations())
    if (name.hasInterface<graph::GraphOp>() &&
        !known.count(name.stripDialect().str()))
      unknown.push_back(name.getStringRef().str());
  return unknown;
}
