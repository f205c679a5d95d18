// Which implementation computes a product, and how much scratch it needs.

#pragma once

#include "dialects/rank/Rank.h"
#include "runtime/device/cpu/Gemm.h"

namespace polyrank::runtime::plan {
struct CallT;
} // namespace polyrank::runtime::plan

namespace polyrank::cpu {

/// The choices of a call: see runtime::GemmShape.
struct GemmCall {
  runtime::GemmLibrary library;
  int64_t pieces = 0;
};

/// The call of a gemm command: the one that its `call` names, or else the one
/// that usually wins.
runtime::GemmShape getGemmShape(rank::GemmOp gemm);

/// Returns true if a plan may leave narrow elements to the instructions that
/// multiply them: this machine is the one that the plan is for, and the plan
/// takes denormal numbers for zero, as the instructions for bf16 do in any
/// mode. Whether the machine has them is another question.
bool mayUseNarrowInstructions(mlir::Operation *call);

/// Fails if the library does not multiply such elements.
Result<void> checkGemm(rank::GemmOp gemm);
/// Gives each product its `call`. Products with equal keys have one, and are
/// measured once.
void chooseGemmCalls(llvm::ArrayRef<rank::GemmOp> gemms, int64_t threads,
                     bool measure);
/// The bytes of scratch that the library needs for a team of `threads`. Emits
/// an error if the library cannot compute the product.
mlir::FailureOr<int64_t> getGemmScratch(rank::GemmOp gemm, int64_t threads);
/// Writes the body of the call in the plan, and says in its text how it is
/// computed. Emits an error if no call is chosen.
mlir::LogicalResult writeGemm(rank::GemmOp gemm, runtime::plan::CallT &call);

} // namespace polyrank::cpu
