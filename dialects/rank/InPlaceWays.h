// Where commands may write a result over an operand, for those who ask often.

#pragma once

#include <optional>

#include "dialects/graph/Symbols.h"
#include "dialects/rank/Rank.h"

namespace polyrank::rank {

/// What `CommandOp::getInPlace` says, of the commands of one module. A launch
/// asks its kernel, which is found at once here.
class InPlaceWays {
public:
  /// `from`: the module, or any op in it.
  explicit InPlaceWays(mlir::Operation *from) : from(from) {}

  /// Whether `op` may write the result where it reads the operand; never of
  /// what is no command.
  runtime::InPlace get(mlir::Operation *op, unsigned operand,
                       unsigned result) const;

private:
  mlir::Operation *from;
  /// Read at the first launch.
  mutable std::optional<graph::Symbols> symbols;
};

} // namespace polyrank::rank
