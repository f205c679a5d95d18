// Reads and builds `#sharding.reason`, the reason why a value moves.

#pragma once

#include <string>

#include "dialects/sharding/Layout.h"

namespace polyrank::sharding {

/// The parts of a reason (Sharding.td). Unknown parts are empty.
struct Reason {
  std::string value, producer, user, from, to, constraint;
  llvm::SmallVector<ReasonAttr> members;

  Reason() = default;
  /// A null attribute gives an empty reason.
  explicit Reason(ReasonAttr why);
  ReasonAttr get(mlir::MLIRContext *context) const;
};

/// Verifies that `why` has a member for each operand of the op, or none.
mlir::LogicalResult verifyReason(mlir::Operation *op, ReasonAttr why);

} // namespace polyrank::sharding
