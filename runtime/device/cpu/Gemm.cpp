// PreparedGemm by oneDNN: which of its functions computes a shape, in which
// form.

#include "runtime/device/cpu/Gemm.h"

#include "runtime/device/cpu/GroupedGemm.h"
#include "runtime/device/cpu/OneDnn.h"
#include "runtime/device/cpu/TiledGemm.h"
#include "runtime/device/cpu/WidenedGemm.h"

#include <oneapi/dnnl/dnnl.h>

namespace polyrank::runtime {
namespace {

/// Returns the same products with fewer batch dims: dims of size one are
/// dropped, and neighbours that one stride covers are merged.
std::vector<GemmBatchDim> merged(const std::vector<GemmBatchDim> &batch) {
  std::vector<GemmBatchDim> result;
  for (const GemmBatchDim &dim : batch) {
    if (dim.count == 1)
      continue;
    if (!result.empty()) {
      GemmBatchDim &outer = result.back();
      if (outer.aStride == dim.aStride * dim.count &&
          outer.bStride == dim.bStride * dim.count &&
          outer.cStride == dim.cStride * dim.count) {
        outer = {outer.count * dim.count, dim.aStride, dim.bStride,
                 dim.cStride};
        continue;
      }
    }
    result.push_back(dim);
  }
  return result;
}

/// Folds a batch whose products share B and have consecutive rows into one
/// product with more rows.
void foldBatchIntoRows(GemmShape &shape) {
  while (!shape.batch.empty()) {
    const GemmBatchDim &dim = shape.batch.back();
    if (shape.transposeA || dim.bStride != 0 ||
        dim.aStride != shape.m * shape.lda ||
        dim.cStride != shape.m * shape.ldc)
      return;
    shape.m *= dim.count;
    shape.batch.pop_back();
  }
}

/// Returns the same product without needless batch dims.
GemmShape simplified(GemmShape shape) {
  shape.batch = merged(shape.batch);
  foldBatchIntoRows(shape);
  return shape;
}

class SgemmProducts final : public TiledGemm {
public:
  using TiledGemm::TiledGemm;
  uint64_t scratchBytes() const override { return 0; }

private:
  bool compute(const Tile &tile) override {
    return dnnl_sgemm(
               shape.transposeA ? 'T' : 'N', shape.transposeB ? 'T' : 'N',
               tile.rows, tile.columns, shape.k, shape.alpha,
               reinterpret_cast<const float *>(tile.a), shape.lda,
               reinterpret_cast<const float *>(tile.b), shape.ldb, shape.beta,
               reinterpret_cast<float *>(tile.c), shape.ldc) == dnnl_success;
  }
};

} // namespace

bool hasProduct(ElementType operands, ElementType accumulator,
                ElementType result) {
  bool isNarrow = operands == ElementType::BF16 || operands == ElementType::F16;
  return (operands == ElementType::F32 || isNarrow) &&
         accumulator == ElementType::F32 &&
         (result == operands || result == accumulator);
}

/// Each function is for elements of its own.
static Result<void> checkTypes(const GemmShape &shape) {
  auto refuse = [&](const std::string &why) {
    return Error{"gemm " + describe(shape) + ": " + why, Error::Fault::Rank};
  };
  if (!hasProduct(shape.operands, shape.accumulator, shape.result))
    return refuse(std::string("the CPU has no product of ") +
                  nameOf(shape.operands) + " that is added in " +
                  nameOf(shape.accumulator) + " and gives " +
                  nameOf(shape.result));
  if (shape.library == GemmLibrary::Sgemm && shape.isNarrow())
    return refuse(std::string("sgemm multiplies f32, and the plan has ") +
                  nameOf(shape.operands));
  if (shape.library == GemmLibrary::Widened && !shape.isNarrow())
    return refuse("only elements that are narrower than f32 can be widened");
  return {};
}

bool hasNarrowMatmul(ElementType operands, ElementType result) {
  GemmShape shape;
  shape.library = GemmLibrary::Matmul;
  shape.m = shape.n = shape.k = shape.lda = shape.ldb = shape.ldc = 64;
  shape.operands = operands, shape.result = result;
  return static_cast<bool>(prepareGemm(shape, 1));
}

Result<std::unique_ptr<PreparedGemm>> prepareGemm(const GemmShape &shape,
                                                  int threads) {
  if (Result<void> has = checkTypes(shape); !has)
    return has.error();
  if (Result<void> loaded = loadOneDnn(); !loaded)
    return loaded.error();
  if (shape.grouped != GemmGroups::None)
    return prepareGroupedGemm(shape, threads);
  GemmShape simple = simplified(shape);
  switch (shape.library) {
  case GemmLibrary::Sgemm:
    return std::unique_ptr<PreparedGemm>(new SgemmProducts(simple, threads));
  case GemmLibrary::Widened:
    return prepareWidened(simple, threads);
  case GemmLibrary::Matmul:
    break;
  }
  return prepareMatmul(simple, threads);
}

Result<uint64_t> gemmScratchBytes(const GemmShape &shape, int threads) {
  // Without loading oneDNN.
  if (Result<void> has = checkTypes(shape); !has)
    return has.error();
  if (shape.library == GemmLibrary::Sgemm && shape.grouped == GemmGroups::None)
    return uint64_t(0);
  auto prepared = prepareGemm(shape, threads);
  if (!prepared)
    return prepared.error();
  return (*prepared)->scratchBytes();
}

int64_t defaultPieces(const GemmShape &shape) {
  return piecesOf(simplified(shape));
}

std::string describe(const GemmShape &shape) {
  std::string text = std::to_string(shape.m) + "x" + std::to_string(shape.n) +
                     "x" + std::to_string(shape.k) +
                     (shape.transposeA ? " A^T" : "") +
                     (shape.transposeB ? " B^T" : "");
  for (const GemmBatchDim &dim : shape.batch)
    text += " *" + std::to_string(dim.count);
  if (shape.grouped != GemmGroups::None)
    text += std::string(" grouped ") + nameOf(shape.grouped);
  if (shape.isNarrow()) {
    text += std::string(" ") + nameOf(shape.operands);
    if (shape.result != shape.operands)
      text += std::string(" to ") + nameOf(shape.result);
  }
  if (shape.pieces)
    text += " in " + std::to_string(shape.pieces);
  return text + " (" + nameOf(shape.library) + ")";
}

} // namespace polyrank::runtime
