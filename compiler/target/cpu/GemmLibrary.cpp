// Which implementation computes a product, and how much scratch it needs.

#include "compiler/target/cpu/GemmLibrary.h"

#include "compiler/target/GemmShape.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::cpu;

runtime::GemmShape cpu::getGemmShape(rank::GemmOp gemm) {
  runtime::GemmShape shape = target::getGemmShape(gemm);
  // The default without a measurement is the BLAS call for single and grouped
  // products: with oneDNN 2.6, matmul can be half as fast if rows of B are a
  // multiple of 4 KiB apart. The products of a batch are too small for the
  // packing of the BLAS call to pay off; those of groups have sizes that depend
  // on data.
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
