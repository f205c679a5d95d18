// Which functions of libraries compute the calls of a CPU.

#pragma once

#include "dialects/rank/Rank.h"
#include "support/Result.h"

namespace polyrank::runtime::plan {
struct CallT;
} // namespace polyrank::runtime::plan

namespace polyrank::cpu {

/// Library calls of the CPU target; the target's interface (Target.td) defines
/// these functions. Each kind of call has a file of its own.
Result<void> checkCall(rank::LibraryCallOp call);
void chooseCalls(llvm::ArrayRef<rank::LibraryCallOp> calls, int64_t threads,
                 bool measure);
mlir::FailureOr<int64_t> getScratchBytes(rank::LibraryCallOp call,
                                         int64_t threads);
mlir::LogicalResult writeCall(rank::LibraryCallOp call,
                              runtime::plan::CallT &written);

} // namespace polyrank::cpu
