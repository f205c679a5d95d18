// Which implementation computes a product, and what memory it asks for.

#pragma once

#include "dialects/rank/Rank.h"
#include "runtime/device/cpu/Gemm.h"

namespace polyrank::cpu {

/// What can be chosen of a call: see runtime::GemmShape.
struct GemmCall {
  runtime::GemmLibrary library;
  int64_t pieces = 0;
};

/// The call that a gemm command is: what its `call` says, or else the usual
/// winner.
runtime::GemmShape getGemmShape(rank::GemmOp gemm);
void setGemmCall(rank::GemmOp gemm, const GemmCall &call);

/// Bytes of scratch that the library asks for, for a team of `threads`. Emits
/// an error where the library cannot compute the product.
mlir::FailureOr<int64_t> getGemmScratch(rank::GemmOp gemm, int64_t threads);

} // namespace polyrank::cpu
