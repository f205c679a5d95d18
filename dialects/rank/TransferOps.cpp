// Sends and receives: their verifiers.

#include "dialects/rank/Rank.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::rank;

/// Verifies either end.
template <typename Op>
static LogicalResult verifyTransfer(Op op) {
  int64_t from = op.getFrom(), to = op.getTo(), slots = op.getSlots(),
          size = op.getAxes().getGroupSize();
  if (from < 0 || from >= size || to < 0 || to >= size || from == to)
    return op.emitOpError("[1] goes from index ")
           << from << " to " << to << " of " << size
           << "; they must be different ones";
  if (slots < 1)
    return op.emitOpError("[2] has ") << slots << " slots";
  return success();
}

LogicalResult SendOp::verify() { return verifyTransfer(*this); }

LogicalResult RecvOp::verify() { return verifyTransfer(*this); }
