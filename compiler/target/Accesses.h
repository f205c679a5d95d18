// What loops read and write along one of their variables: what every target
// weighs when it chooses how they run.

#pragma once

#include "dialects/kernel/Kernel.h"

namespace polyrank::target {

/// A load, store or scatter of loops, seen along one variable.
struct Access {
  mlir::Operation *op;
  const kernel::Affine *offset;
  /// True if the place along the variable is computed by the loops.
  bool isIndexed;
  bool isWritten;

  /// The size of an element in memory, in bytes.
  int64_t elementBytes() const;
};

llvm::SmallVector<Access> accessesAlong(kernel::LoopsOp loops, size_t variable,
                                        const kernel::Dependences &dependences);

/// The number of elements that an expression touches.
int64_t countPoints(kernel::LoopsOp loops, const kernel::Affine &affine);

/// Returns true if the result of a reduction depends on its order.
bool roundsSums(kernel::LoopsOp loops);

/// For each value, the passes that compute it, as a bit set. Values in `kept`
/// are computed in their first pass only.
llvm::DenseMap<mlir::Value, uint64_t>
getComputingPasses(kernel::LoopsOp loops,
                   const kernel::Dependences &dependences,
                   llvm::ArrayRef<mlir::Value> kept);

} // namespace polyrank::target
