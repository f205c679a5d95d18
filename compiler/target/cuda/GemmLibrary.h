// Products by cuBLASLt.

#pragma once

#include "dialects/rank/Rank.h"
#include "support/Result.h"

namespace polyrank::runtime::plan {
struct CallT;
} // namespace polyrank::runtime::plan

namespace polyrank::cuda {

/// Library calls of the CUDA target; the target's interface (Target.td) defines
/// these functions.
Result<void> checkCall(rank::LibraryCallOp call);
void chooseCalls(llvm::ArrayRef<rank::LibraryCallOp> calls);
mlir::FailureOr<int64_t> getScratchBytes(rank::LibraryCallOp call);
mlir::LogicalResult writeCall(rank::LibraryCallOp call,
                              runtime::plan::CallT &written);
double estimateProducts(int64_t m, int64_t n, int64_t k, int64_t products);
double estimateCopy(int64_t bytes);

} // namespace polyrank::cuda
