// Finds how the program uses the dims of a parameter, for constraints on it.

#pragma once

#include "dialects/graph/Graph.h"

namespace polyrank::sharding {

/// The uses of one dim of a parameter in the program.
struct DimUse {
  bool isSliced = false;
  bool isHeads = false;
  /// The dim counts heads of keys and values, each of which serves several
  /// heads of queries.
  bool isGroups = false;
  /// The dim lies within a head of an attention with several heads.
  bool isWidth = false;
  /// The dim is as large as one block of another part of a fused matrix, like
  /// the single head of keys beside several heads of queries.
  bool isOneBlock = false;
};

/// Collects the uses of dim `dim` of a value. It is followed through ops in
/// which it is one factor, also as the major part of a merged dim, until an op
/// splits it into several factors.
DimUse followDim(mlir::Value value, int64_t dim);

/// The most major part of `axes` that cuts a dim into `count` blocks; nullopt
/// if there is none.
std::optional<llvm::SmallVector<sharding::AxisRef>>
majorPart(llvm::ArrayRef<sharding::AxisRef> axes, int64_t count);

/// Per stored dim, the dims of the view that lie within it, major to minor.
llvm::SmallVector<llvm::SmallVector<int64_t>>
dimsOfStored(llvm::ArrayRef<int64_t> stored, mlir::RankedTensorType type,
             llvm::ArrayRef<int64_t> strides);

} // namespace polyrank::sharding
