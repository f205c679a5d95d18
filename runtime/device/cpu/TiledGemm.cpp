// A GEMM whose tiles are computed one by one, each by one thread.

#include "runtime/device/cpu/TiledGemm.h"

#include <algorithm>

namespace polyrank::runtime {

Error libraryError(const GemmShape &shape, const std::string &what) {
  return Error{"gemm " + describe(shape) + ": oneDNN: " + what,
               Error::Fault::Rank};
}

Result<void> TiledGemm::run(const GemmOperands &operands) {
  int64_t tasks = tiling.tasks();
  bool isWorthATeam =
      tasks > 1 && tasks * tiling.tileM * tiling.tileN * shape.k >= worthATeam;
  if (!runTasks(isWorthATeam ? threads : 1, tasks,
                [&](int64_t task, int64_t thread) {
                  return compute(tileOf(operands, task, thread));
                }))
    return libraryError(shape, "the product failed");
  return {};
}

TiledGemm::Tile TiledGemm::tileOf(const GemmOperands &operands, int64_t task,
                                  int64_t thread) const {
  int64_t m0 = task % tiling.countM * tiling.tileM;
  int64_t n0 = task / tiling.countM % tiling.countN * tiling.tileN;
  int64_t product = task / (tiling.countM * tiling.countN);
  int64_t a = shape.transposeA ? m0 : m0 * shape.lda;
  int64_t b = shape.transposeB ? n0 * shape.ldb : n0;
  int64_t c = m0 * shape.ldc + n0;
  for (size_t d = shape.batch.size(); d-- > 0;) {
    const GemmBatchDim &dim = shape.batch[d];
    int64_t index = product % dim.count;
    product /= dim.count;
    a += index * dim.aStride, b += index * dim.bStride;
    c += index * dim.cStride;
  }
  int64_t factor = bytesOf(shape.operands);
  return {static_cast<const std::byte *>(operands.a) + a * factor,
          static_cast<const std::byte *>(operands.b) + b * factor,
          static_cast<std::byte *>(operands.c) + c * bytesOf(shape.result),
          std::min(tiling.tileM, shape.m - m0),
          std::min(tiling.tileN, shape.n - n0),
          thread,
          static_cast<std::byte *>(operands.scratch)};
}

} // namespace polyrank::runtime
