// Why a value moves: `#sharding.reason` to read and to build.

#pragma once

#include <string>

#include "dialects/sharding/Layout.h"

namespace polyrank::sharding {

/// What a reason says (Sharding.td). Empty is what is not known.
struct Reason {
  std::string value, producer, user, from, to, constraint;
  llvm::SmallVector<ReasonAttr> members;

  Reason() = default;
  /// Null says nothing.
  explicit Reason(ReasonAttr why);
  ReasonAttr get(mlir::MLIRContext *context) const;
};

/// That `why` fits the op: there is a member for each operand, or none.
mlir::LogicalResult verifyReason(mlir::Operation *op, ReasonAttr why);

} // namespace polyrank::sharding
