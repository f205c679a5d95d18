// Which implementation computes a product, and what memory it asks for.

#pragma once

#include "dialects/rank/Rank.h"
#include "runtime/device/cpu/Gemm.h"

namespace polyrank::lowering {

/// What can be chosen of a call: see runtime::GemmShape.
struct GemmCall {
  runtime::GemmLibrary library;
  int64_t pieces = 0;
};

/// The call that a gemm command is; its implementation is what `rank.library`
/// says, or else the usual winner, and `rank.pieces` says how it is cut.
runtime::GemmShape getGemmShape(rank::GemmOp gemm);
void setGemmCall(rank::GemmOp gemm, const GemmCall &call);

/// Bytes of scratch that the library asks for, for a team of `threads`. Emits
/// an error where the library cannot compute the product.
mlir::FailureOr<int64_t> getGemmScratch(rank::GemmOp gemm, int64_t threads);

} // namespace polyrank::lowering
