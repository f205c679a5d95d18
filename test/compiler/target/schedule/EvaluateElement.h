// Ops of `arith` and `math` on elements, in the elements' own types.

#pragma once

#include <cstdint>
#include <vector>

#include "dialects/sharding/Sharding.h"
#include "mlir/IR/Operation.h"

namespace polyrank::target {

/// Values at some points. Floats are their bits; integers are extended by their
/// sign, and booleans are 0 or 1.
using Column = std::vector<uint64_t>;

/// The bytes of an element in memory.
unsigned getElementBytes(mlir::Type type);
/// An integer as it is in a column: it wraps around in its width.
uint64_t wrap(mlir::Type type, uint64_t value);

/// Evaluates an op of `arith` or `math` at each point. Emits an error if it is
/// none that expanded kernels contain.
mlir::LogicalResult evaluateElements(mlir::Operation *op,
                                     llvm::ArrayRef<const Column *> operands,
                                     Column &result);

/// Combines two partial results of a reduction.
uint64_t combine(sharding::ReductionKind kind, mlir::Type type, uint64_t x,
                 uint64_t y);
/// The value with which a reduction begins.
uint64_t getIdentity(sharding::ReductionKind kind, mlir::Type type);
/// A float that is converted to a type that is at least as wide.
uint64_t widen(mlir::Type from, mlir::Type to, uint64_t bits);

} // namespace polyrank::target
