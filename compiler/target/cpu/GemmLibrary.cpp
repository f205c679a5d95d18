// Which implementation computes a product, and what memory it asks for.

#include "compiler/target/cpu/GemmLibrary.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::lowering;

static constexpr StringRef libraryAttribute = "rank.library",
                           piecesAttribute = "rank.pieces";

/// Transposed or not, and the leading dim, of a rows x columns operand.
static std::pair<bool, int64_t> getLeading(ArrayRef<int64_t> access,
                                           int64_t columns) {
  bool rowMajor = access[2] == 1 && access[1] >= columns;
  return {!rowMajor, rowMajor ? access[1] : access[2]};
}

runtime::GemmShape polyrank::lowering::getGemmShape(rank::GemmOp gemm) {
  runtime::GemmShape shape;
  shape.m = gemm.getM();
  shape.n = gemm.getN();
  shape.k = gemm.getK();
  std::tie(shape.transposeA, shape.lda) =
      getLeading(gemm.getAAccess(), gemm.getK());
  std::tie(shape.transposeB, shape.ldb) =
      getLeading(gemm.getBAccess(), gemm.getN());
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
  if (auto chosen = gemm->getAttrOfType<StringAttr>(libraryAttribute))
    shape.library = chosen.getValue() == "matmul"
                        ? runtime::GemmLibrary::Matmul
                        : runtime::GemmLibrary::Sgemm;
  if (auto chosen = gemm->getAttrOfType<IntegerAttr>(piecesAttribute))
    shape.pieces = chosen.getInt();
  return shape;
}

void polyrank::lowering::setGemmCall(rank::GemmOp gemm,
                                     const GemmCall &call) {
  if (call.pieces)
    gemm->setAttr(piecesAttribute,
                  IntegerAttr::get(IntegerType::get(gemm.getContext(), 64),
                                   call.pieces));
  gemm->setAttr(libraryAttribute,
                StringAttr::get(gemm.getContext(),
                                call.library == runtime::GemmLibrary::Matmul
                                    ? "matmul"
                                    : "sgemm"));
}

FailureOr<int64_t> polyrank::lowering::getGemmScratch(rank::GemmOp gemm,
                                                      int64_t threads) {
  auto bytes = runtime::gemmScratchBytes(getGemmShape(gemm), threads);
  if (!bytes)
    return gemm.emitOpError(bytes.error().message);
  return static_cast<int64_t>(*bytes);
}
