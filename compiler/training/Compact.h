// Values without the dims along which they only repeat.

#pragma once

#include "dialects/graph/Graph.h"

namespace polyrank::training {

/// A value from which another one of more dims is made by repeating it.
struct Compact {
  mlir::Value value;
  /// For each dim of `value` the dim of the other one; -1 for dims of size 1
  /// that it does not have.
  llvm::SmallVector<int64_t> dims;

  /// The value in a shape that has the dims `of` of the other one, whose shape
  /// is `whole`, and size 1 elsewhere. `value` varies along no other dims.
  mlir::Value inShape(mlir::OpBuilder &builder, llvm::ArrayRef<int64_t> of,
                      llvm::ArrayRef<int64_t> whole) const;
  /// The dims of the other value along which this one varies, ascending.
  llvm::SmallVector<int64_t> getVarying() const;
};

/// Finds the smallest value from which `value` is made by broadcasts, and by
/// reshapes that add or drop dims of size 1. Where broadcasts come before
/// elementwise ops, these are built anew on what is repeated. `value` has
/// ascending dims in the result.
Compact makeCompact(mlir::OpBuilder &builder, mlir::Value value);

/// The operand of the op that defines `compact`, as part of the same value.
Compact makeCompact(mlir::OpBuilder &builder, const Compact &compact,
                    unsigned operand);

/// Returns true if both are made from the same values by the same ops, of which
/// there are not too many.
bool isSameValue(mlir::Value one, mlir::Value other);

/// Returns `value` in another shape; reshapes that come before are undone.
mlir::Value reshaped(mlir::OpBuilder &builder, mlir::Value value,
                     llvm::ArrayRef<int64_t> shape);

} // namespace polyrank::training
