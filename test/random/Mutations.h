// Mutations of one rank's communication: check-ranks finds exactly those that
// matter.

#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "test/random/Random.h"

namespace polyrank::test {

struct MutationCounts {
  int64_t rejected = 0, equivalent = 0;
};

/// Changes one rank's communication of `module` (with segments formed) in
/// `count` ways, each on its own: another id, kind, peer, size or group, a
/// command that is missing, duplicated, or moved. A change that alters a
/// group's sequence of ids, a peer, a size or a group, or that makes a cycle of
/// waits must be rejected; for any other it is shown that all groups do the
/// same as before and that all ranks end. Returns what is wrong, or "".
std::string checkMutations(mlir::ModuleOp module, int64_t count, Random &random,
                           MutationCounts &counts);

/// Moves a started collective, its wait or another command of their block to
/// another place that its operands and users allow, or repeats or drops the
/// wait. Returns what it did; "" if no collective is started.
std::string mutateQueue(mlir::ModuleOp module, Random &random);

} // namespace polyrank::test
