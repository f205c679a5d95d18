// Converts a rank.gemm to the runtime's description of a matrix product.

#include "compiler/target/GemmShape.h"

#include "support/EnumNames.h"

using namespace mlir;
using namespace polyrank;

static_assert(runtime::numGemmLibraries ==
                  rank::getMaxEnumValForGemmLibrary() + 1 &&
              agreeOn<runtime::GemmLibrary, rank::GemmLibrary,
                      runtime::numGemmLibraries>);

runtime::GemmShape target::getGemmShape(rank::GemmOp gemm) {
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
  shape.alpha = static_cast<float>(gemm.getAlpha().convertToDouble());
  shape.beta = gemm.getAddend() ? 1 : 0;
  if (std::optional<rank::Grouped> grouped = gemm.getGrouped())
    shape.grouped = grouped == rank::Grouped::Rows ? runtime::GemmGroups::Rows
                                                   : runtime::GemmGroups::Inner;
  if (auto call = dyn_cast_or_null<rank::CpuCallAttr>(gemm.getCallAttr())) {
    shape.library = runtime::GemmLibrary(call.getLibrary());
    shape.pieces = call.getPieces();
  }
  return shape;
}
