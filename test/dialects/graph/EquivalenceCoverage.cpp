// The table of the equivalence test.

#include "test/dialects/graph/EquivalenceCoverage.h"

#include <cstdio>
#include <map>

#include "llvm/ADT/STLExtras.h"

using namespace polyrank;
using namespace polyrank::test;
using sharding::ReductionKind;

bool test::isClosed(graph::FactorKind kind) {
  return kind == graph::FactorKind::Composite ||
         kind == graph::FactorKind::Replicated;
}

/// Why a cell of the table has no accepted combination; "" where there must be
/// one.
static std::string whyNeverAccepted(const Coverage::Row &row, Aspect aspect) {
  if (isClosed(row.kind))
    return "a " + graph::stringify(row.kind).str() +
           " factor is neither split nor padded";
  if (aspect == Padded && !row.isWholeDim)
    return "a padded dim passes only as one whole factor";
  if (aspect >= PartialSum &&
      row.passes.find(aspectNames[aspect]) == std::string::npos)
    return std::string("the op neither passes nor makes a partial ") +
           aspectNames[aspect];
  bool isPartial = aspect >= PartialSum;
  if (isPartial && row.makesPartial &&
      aspect != PartialSum + static_cast<int>(*row.makesPartial))
    return "its split makes results partial in another way, and a value is "
           "partial in one";
  if (!row.isWholeDim && row.size % 2 != 0)
    return "an odd size in a dim that cannot be padded";
  // A factor can be split only if the more major ones are split completely.
  if (row.majorSize * 2 * (isPartial ? 2 : 1) > numDevices)
    return "more major factors of the dim take the devices";
  return "";
}

std::vector<Coverage::Row> &Coverage::getRows(const char *op,
                                              const graph::ShardingRule &rule) {
  for (auto &rows : ops)
    if (!rows.empty() && rows.front().op == op)
      return rows;
  std::vector<Row> &rows = ops.emplace_back();
  for (auto [i, factor] : llvm::enumerate(rule.factors)) {
    Row &row = rows.emplace_back();
    row.op = op;
    row.factor = std::string(1, static_cast<char>('i' + i));
    row.kind = factor.kind;
    row.isWholeDim = true;
    row.size = factor.size;
    if ((factor.kind == graph::FactorKind::Reduction ||
         factor.kind == graph::FactorKind::Indexed) &&
        !rule.isResultOnly(i))
      row.makesPartial = factor.reduction;
    for (const auto *tensors : {&rule.operands, &rule.results})
      for (const graph::TensorFactors &tensor : *tensors)
        for (const graph::DimFactors &dim : tensor) {
          const auto *found = llvm::find(dim, static_cast<int>(i));
          if (found == dim.end())
            continue;
          row.isWholeDim &= dim.size() == 1;
          int64_t majorSize = 1;
          for (int major : llvm::make_range(dim.begin(), found))
            majorSize *= rule.factors[major].size;
          row.majorSize = std::max(row.majorSize, majorSize);
        }
    for (int kind = 0; kind < 3; ++kind) {
      auto reduction = static_cast<ReductionKind>(kind);
      bool passes = false;
      for (unsigned operand = 0; operand < rule.operands.size(); ++operand)
        passes |= rule.getPass(reduction, operand) != graph::PartialPass::None;
      for (const graph::Factor &other : rule.factors)
        passes |= (other.kind == graph::FactorKind::Reduction ||
                   other.kind == graph::FactorKind::Indexed) &&
                  other.reduction == reduction;
      if (passes)
        row.passes += std::string(aspectNames[PartialSum + kind]) + " ";
    }
  }
  return rows;
}

void Coverage::TearDown() {
  if (ops.empty())
    return;
  std::printf("\nAccepted/rejected combinations by op, factor and what is done "
              "to it; a partial beside a split of the factor\n%-22s %-13s",
              "op", "factor");
  for (const char *name : aspectNames)
    std::printf(" %11s", name);
  std::printf("\n");
  std::map<std::string, size_t> reasons;
  for (const auto &rows : ops)
    for (const Row &row : rows) {
      std::printf("%-22s %-2s%-11s", row.op.c_str(), row.factor.c_str(),
                  graph::stringify(row.kind).str().c_str());
      for (int i = 0; i < numAspects; ++i) {
        std::printf(" %11s", (std::to_string(row.accepted[i]) + "/" +
                              std::to_string(row.rejected[i]))
                                 .c_str());
        if (row.accepted[i])
          continue;
        std::string reason = whyNeverAccepted(row, static_cast<Aspect>(i));
        std::string cell = row.op + " " + row.factor + " " + aspectNames[i];
        if (row.rejected[i] == 0)
          missing.push_back(cell + " was never tried");
        else if (reason.empty())
          missing.push_back(cell + " was never accepted");
        else
          ++reasons[reason];
      }
      std::printf("\n");
    }
  std::printf("\nCells in which nothing is accepted:\n");
  for (const auto &[reason, count] : reasons)
    std::printf("%5zu: %s\n", count, reason.c_str());
  std::printf("%5zu: without a reason\n", missing.size());
  for (const std::string &cell : missing)
    ADD_FAILURE() << cell;
}
