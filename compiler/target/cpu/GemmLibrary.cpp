// Which implementation computes a product, and what memory it asks for.

#include "compiler/target/cpu/GemmLibrary.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::cpu;

static_assert(int(rank::GemmLibrary::Sgemm) ==
                  int(runtime::GemmLibrary::Sgemm) &&
              int(rank::GemmLibrary::Matmul) ==
                  int(runtime::GemmLibrary::Matmul));

runtime::GemmShape cpu::getGemmShape(rank::GemmOp gemm) {
  runtime::GemmShape shape;
  shape.m = gemm.getM();
  shape.n = gemm.getN();
  shape.k = gemm.getK();
  shape.transposeA = gemm.getAForm().isTransposed;
  shape.lda = gemm.getAForm().leading;
  shape.transposeB = gemm.getBForm().isTransposed;
  shape.ldb = gemm.getBForm().leading;
  shape.ldc = gemm.getRow();
  for (rank::GemmOp::BatchDim dim : gemm.getBatchDims())
    shape.batch.push_back(
        {dim.count, dim.aStride, dim.bStride, dim.resultStride});
  shape.alpha = gemm.getAlpha().convertToFloat();
  shape.beta = gemm.getAddend() ? 1 : 0;
  // Where nothing was measured: the products of a batch are too small for the
  // BLAS call's packing to pay; of others oneDNN 2.6's matmul can halve its speed
  // where rows of B are a multiple of 4 KiB apart.
  shape.library = shape.batch.empty() ? runtime::GemmLibrary::Sgemm
                                      : runtime::GemmLibrary::Matmul;
  if (auto call = dyn_cast_or_null<rank::CpuCallAttr>(gemm.getCallAttr())) {
    shape.library = runtime::GemmLibrary(call.getLibrary());
    shape.pieces = call.getPieces();
  }
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
