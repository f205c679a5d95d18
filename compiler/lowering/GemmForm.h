// A contraction of strided tensors as one library call.

#pragma once

#include "compiler/lowering/StridedView.h"

namespace polyrank::lowering {

/// Which dims of two operands and of the result of a contraction belong
/// together, by position (graph.matmul's lists).
struct ContractionDims {
  llvm::SmallVector<int64_t> lhsBatch, rhsBatch, lhsContract, rhsContract,
      lhsFree, rhsFree;
};

/// A way to call the library: see rank.gemm for the meaning.
struct GemmForm {
  /// Whether the right operand of the contraction is `a`.
  bool swapped = false;
  llvm::SmallVector<int64_t> aAccess, bAccess, sizes, batch;
  int64_t row = 1;
  /// Estimate for the choice among forms.
  double nanoseconds = 0;
};

/// What so many products of m x k and k x n matrices take, in nanoseconds: what
/// a target estimates.
using EstimateProducts = llvm::function_ref<double(
    int64_t m, int64_t n, int64_t k, int64_t products)>;

/// The cheapest call for a contraction whose operands and result are these
/// views, or nothing where there is none.
std::optional<GemmForm> findGemmForm(const ContractionDims &dims,
                                     const StridedView &lhs,
                                     const StridedView &rhs,
                                     const StridedView &result,
                                     EstimateProducts estimate);

} // namespace polyrank::lowering
