// Mutations of what one rank says: check-ranks finds exactly those that matter.

#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "test/random/Random.h"

namespace polyrank::test {

struct MutationCounts {
  int64_t rejected = 0, equivalent = 0;
};

/// Changes one rank's communication of `module` (with segments formed) in
/// `count` ways, each on its own: another id, kind, peer, size or group, a
/// command that is missing, doubled, or at another place. A change that alters
/// a group's sequence of ids, a peer, a size or a group, or that makes a cycle
/// of waits must be rejected; of any other it is shown that all groups do what
/// they did and that all ranks end. Returns what is wrong, or "".
std::string checkMutations(mlir::ModuleOp module, int64_t count, Random &random,
                           MutationCounts &counts);

/// Moves a collective that is started, its wait or another command of their
/// block to another place that their operands and users allow, or repeats or
/// drops the wait, and says what it did: "" where nothing is started.
std::string mutateQueue(mlir::ModuleOp module, Random &random);

} // namespace polyrank::test
