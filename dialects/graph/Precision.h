// In which type of floats an op of a step of lower precision computes.

#pragma once

#include <optional>

#include "mlir/IR/Operation.h"

namespace polyrank::graph {

enum class Precision {
  Low,   // bf16 or f16, with sums in f32
  Wide,  // f32
  Widest // the widest type of the operands
};

/// Returns what the op's trait says (GraphInterfaces.td); nullopt for ops that
/// are no graph ops. Of a reduction its kind matters too: a sum is formed in
/// f32, an extremum is one of the operand's elements.
std::optional<Precision> getPrecision(mlir::Operation *op);

/// Returns true if `value`, an operand or result of an op that computes in the
/// low type, is a sum or is added to one, and so stays f32: attention's bias
/// and the logarithms of its sums.
bool isSum(mlir::Operation *op, mlir::Value value);

} // namespace polyrank::graph
