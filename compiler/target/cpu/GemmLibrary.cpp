// Which implementation computes a product, and what memory it asks for.

#include "compiler/target/cpu/GemmLibrary.h"

#include "compiler/target/GemmShape.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::cpu;

runtime::GemmShape cpu::getGemmShape(rank::GemmOp gemm) {
  runtime::GemmShape shape = target::getGemmShape(gemm);
  // Where nothing was measured: the products of a batch are too small for the
  // BLAS call's packing to pay, but those of groups, whose sizes are data; of
  // others oneDNN 2.6's matmul can halve its speed
  // where rows of B are a multiple of 4 KiB apart.
  if (!gemm.getCallAttr())
    shape.library = shape.batch.empty() || gemm.getGrouped()
                        ? runtime::GemmLibrary::Sgemm
                        : runtime::GemmLibrary::Matmul;
  return shape;
}

void cpu::setGemmCall(rank::GemmOp gemm, const GemmCall &call) {
  gemm.setCallAttr(rank::CpuCallAttr::get(
      gemm.getContext(), rank::GemmLibrary(call.library), call.pieces));
}

FailureOr<int64_t> cpu::getGemmScratch(rank::GemmOp gemm, int64_t threads) {
  auto bytes = runtime::gemmScratchBytes(getGemmShape(gemm), threads);
  if (!bytes)
    return gemm.emitOpError(bytes.error().message);
  return static_cast<int64_t>(*bytes);
}
