// A cache of where commands may write a result over an operand.

#pragma once

#include <optional>

#include "dialects/graph/Symbols.h"
#include "dialects/rank/Rank.h"

namespace polyrank::rank {

/// Answers `CommandOp::getInPlace` for the commands of one module. A launch
/// asks its kernel, which is looked up quickly here.
class Aliasing {
public:
  /// `from` is the module, or any op in it.
  explicit Aliasing(mlir::Operation *from) : from(from) {}

  /// Says whether `op` may write the result where it reads the operand; Never
  /// for an op that is not a command.
  runtime::InPlace get(mlir::Operation *op, unsigned operand,
                       unsigned result) const;

private:
  mlir::Operation *from;
  /// Built at the first launch.
  mutable std::optional<graph::Symbols> symbols;
};

} // namespace polyrank::rank
