// Which functions of libraries compute the calls of a CPU.

#include "compiler/target/cpu/LibraryCalls.h"

#include "compiler/target/cpu/AttentionLibrary.h"
#include "compiler/target/cpu/GemmLibrary.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::cpu;

Result<void> cpu::checkCall(rank::LibraryCallOp call) {
  if (auto gemm = dyn_cast<rank::GemmOp>(*call))
    return checkGemm(gemm);
  if (isAttention(call))
    return checkAttention(call);
  return Error{"is no call of a library for CPUs"};
}

void cpu::chooseCalls(ArrayRef<rank::LibraryCallOp> calls, int64_t threads,
                      bool measure) {
  SmallVector<rank::GemmOp> gemms;
  for (rank::LibraryCallOp call : calls)
    if (auto gemm = dyn_cast<rank::GemmOp>(*call))
      gemms.push_back(gemm);
    else if (isAttention(call))
      chooseAttentionCall(call);
  chooseGemmCalls(gemms, threads, measure);
}

FailureOr<int64_t> cpu::getScratchBytes(rank::LibraryCallOp call,
                                        int64_t threads) {
  if (Result<void> has = checkCall(call); !has)
    return call.emitOpError(has.error().message);
  if (isAttention(call))
    return getAttentionScratch(call, threads);
  return getGemmScratch(cast<rank::GemmOp>(*call), threads);
}

LogicalResult cpu::writeCall(rank::LibraryCallOp call,
                             runtime::plan::CallT &written) {
  if (Result<void> has = checkCall(call); !has)
    return call.emitOpError(has.error().message);
  if (isAttention(call))
    return writeAttention(call, written);
  return writeGemm(cast<rank::GemmOp>(*call), written);
}
