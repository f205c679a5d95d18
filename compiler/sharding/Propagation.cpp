// Solves a side table: reach, extents, candidates, solution.

#include "compiler/sharding/Propagation.h"

#include "compiler/sharding/Candidates.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;

FailureOr<Propagated> polyrank::sharding::solveLayouts(SideTable table) {
  CompositeCosts composites;
  ReshardCosts costs(table.mesh);
  Reach reach = findReach(table);
  Extents extents(table, reach);
  while (true) {
    FailureOr<Candidates> candidates =
        enumerateCandidates(table, reach, extents, composites);
    if (failed(candidates))
      return failure();
    Solution solution = Solver(table, *candidates, costs).solve();
    std::optional<Extents> smaller =
        extents.tightened(table, *candidates, solution.candidates);
    if (!smaller)
      return Propagated{std::move(table), std::move(reach), std::move(extents),
                        *std::move(candidates), std::move(solution)};
    extents = *std::move(smaller);
  }
}

FailureOr<Propagated>
polyrank::sharding::solveParts(MeshAttr mesh, ArrayRef<Operation *> ops,
                               const llvm::MapVector<Value, LayoutAttr> &wanted,
                               StringRef reason, bool isUpdate) {
  FailureOr<SideTable> table = readParts(mesh, ops, wanted, reason);
  if (failed(table))
    return failure();
  for (Node &node : table->nodes)
    node.isUpdate |= isUpdate;
  return solveLayouts(*std::move(table));
}
