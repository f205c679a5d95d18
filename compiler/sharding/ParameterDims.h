// What the dims of a parameter are in the program, for constraints on it.

#pragma once

#include "dialects/graph/Graph.h"

namespace polyrank::sharding {

/// What happens to one dim of a parameter in the program.
struct DimUse {
  bool isSliced = false;
  bool isHeads = false;
  /// Heads of keys and values, each of which serves several heads of queries.
  bool isGroups = false;
  /// Lies within a head of an attention with several heads.
  bool isWidth = false;
  /// Lies within one block of those of another part of a fused matrix: the one
  /// head of keys beside several of queries.
  bool isOneBlock = false;
};

/// Dim `dim` of a value, wherever the program takes it: through ops in which it
/// is one factor, also as the major part of a merged dim, until it is taken
/// apart.
DimUse followDim(mlir::Value value, int64_t dim);

/// The most major part of `axes` that cuts a dim into `count` blocks; nullopt
/// where none does.
std::optional<llvm::SmallVector<sharding::AxisRef>>
majorPart(llvm::ArrayRef<sharding::AxisRef> axes, int64_t count);

/// Per stored dim, the dims of the view that lie in it, major to minor.
llvm::SmallVector<llvm::SmallVector<int64_t>>
dimsOfStored(llvm::ArrayRef<int64_t> stored, mlir::RankedTensorType type,
             llvm::ArrayRef<int64_t> strides);

} // namespace polyrank::sharding
