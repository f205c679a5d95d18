// A contraction of strided tensors as one library call.

#pragma once

#include "compiler/lowering/StridedView.h"

namespace polyrank::lowering {

/// The dims of the two operands and of the result of a contraction that belong
/// together, by position (the lists of graph.matmul).
struct ContractionDims {
  llvm::SmallVector<int64_t> lhsBatch, rhsBatch, lhsContract, rhsContract,
      lhsFree, rhsFree;
};

/// One way to call the library: see rank.gemm for the meaning.
struct GemmForm {
  /// True if the right operand of the contraction is `a`.
  bool swapped = false;
  llvm::SmallVector<int64_t> aAccess, bAccess, sizes, batch;
  int64_t row = 1;
  /// The estimated time, for the choice among forms.
  double nanoseconds = 0;
};

/// The `accumulator` of a rank.gemm that multiplies such elements; null if
/// their products are added in the elements' own type.
mlir::TypeAttr getAccumulator(mlir::Type element);

/// A target's estimate of the time of `products` products of m x k and k x n
/// matrices, in nanoseconds.
using EstimateProducts = llvm::function_ref<double(
    int64_t m, int64_t n, int64_t k, int64_t products)>;

/// The cheapest call for a contraction whose operands and result are these
/// views, or nullopt if there is none.
std::optional<GemmForm> findGemmForm(const ContractionDims &dims,
                                     const StridedView &lhs,
                                     const StridedView &rhs,
                                     const StridedView &result,
                                     EstimateProducts estimate);

} // namespace polyrank::lowering
