// A GEMM whose tiles are computed one by one, each by one thread.

#pragma once

#include "runtime/device/cpu/Gemm.h"
#include "runtime/device/cpu/GemmTiles.h"

#include <cstddef>

namespace polyrank::runtime {

/// Runs the tasks of a tiling on the team.
class TiledGemm : public PreparedGemm {
public:
  TiledGemm(const GemmShape &shape, int threads)
      : shape(shape), tiling(shape), threads(threads) {}

  Result<void> run(const GemmOperands &operands) override;

protected:
  struct Tile {
    const std::byte *a, *b;
    std::byte *c;
    int64_t rows, columns;
    int64_t thread;
    std::byte *scratch; // of all threads
  };
  /// Computes one tile on the calling thread. Returns whether it worked.
  virtual bool compute(const Tile &tile) = 0;

  const GemmShape shape;
  const Tiling tiling;
  const int threads;

private:
  Tile tileOf(const GemmOperands &operands, int64_t task, int64_t thread) const;
};

Error libraryError(const GemmShape &shape, const std::string &what);

/// A GEMM by oneDNN's matmul primitive.
Result<std::unique_ptr<PreparedGemm>> prepareMatmul(const GemmShape &shape,
                                                    int threads);

} // namespace polyrank::runtime
