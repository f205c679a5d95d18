// PreparedGemm by oneDNN. Its C++ interface throws; no exception leaves this
// file.

#include "runtime/device/cpu/Gemm.h"

#include "runtime/device/cpu/GemmTiles.h"
#include "runtime/device/cpu/GroupedGemm.h"
#include "runtime/device/cpu/OneDnn.h"

#include <algorithm>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

namespace polyrank::runtime {
namespace {

Error libraryError(const GemmShape &shape, const char *what) {
  return Error{"gemm " + describe(shape) + ": oneDNN: " + what,
               Error::Fault::Rank};
}

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

/// Runs the tasks of a tiling on the team.
class TiledGemm : public PreparedGemm {
public:
  TiledGemm(const GemmShape &shape, int threads)
      : shape(shape), tiling(shape), threads(threads) {}

  Result<void> run(const GemmOperands &operands) override {
    int64_t tasks = tiling.tasks();
    bool isWorthATeam =
        tasks > 1 &&
        tasks * tiling.tileM * tiling.tileN * shape.k >= worthATeam;
    if (!runTasks(isWorthATeam ? threads : 1, tasks,
                  [&](int64_t task, int64_t thread) {
                    return compute(tileOf(operands, task, thread));
                  }))
      return libraryError(shape, "the product failed");
    return {};
  }

protected:
  struct Tile {
    const float *a, *b;
    float *c;
    int64_t rows, columns;
    int64_t thread;
    std::byte *scratch;
  };
  /// Computes one tile on the calling thread. Returns whether it worked.
  virtual bool compute(const Tile &tile) = 0;

  const GemmShape shape;
  const Tiling tiling;
  const int threads;

private:
  Tile tileOf(const GemmOperands &operands, int64_t task,
              int64_t thread) const {
    int64_t m0 = task % tiling.countM * tiling.tileM;
    int64_t n0 = task / tiling.countM % tiling.countN * tiling.tileN;
    int64_t product = task / (tiling.countM * tiling.countN);
    Tile tile{operands.a + (shape.transposeA ? m0 : m0 * shape.lda),
              operands.b + (shape.transposeB ? n0 * shape.ldb : n0),
              operands.c + m0 * shape.ldc + n0,
              std::min(tiling.tileM, shape.m - m0),
              std::min(tiling.tileN, shape.n - n0),
              thread,
              static_cast<std::byte *>(operands.scratch)};
    for (size_t d = shape.batch.size(); d-- > 0;) {
      const GemmBatchDim &dim = shape.batch[d];
      int64_t index = product % dim.count;
      product /= dim.count;
      tile.a += index * dim.aStride, tile.b += index * dim.bStride;
      tile.c += index * dim.cStride;
    }
    return tile;
  }
};

class SgemmProducts final : public TiledGemm {
public:
  using TiledGemm::TiledGemm;
  uint64_t scratchBytes() const override { return 0; }

private:
  bool compute(const Tile &tile) override {
    return dnnl_sgemm(shape.transposeA ? 'T' : 'N',
                      shape.transposeB ? 'T' : 'N', tile.rows, tile.columns,
                      shape.k, shape.alpha, tile.a, shape.lda, tile.b,
                      shape.ldb, shape.beta, tile.c, shape.ldc) == dnnl_success;
  }
};

class MatmulProducts final : public TiledGemm {
public:
  static Result<std::unique_ptr<PreparedGemm>> create(const GemmShape &shape,
                                                      int threads) {
    try {
      return std::unique_ptr<PreparedGemm>(new MatmulProducts(shape, threads));
    } catch (const std::exception &exception) {
      return libraryError(shape, exception.what());
    }
  }

  uint64_t scratchBytes() const override { return scratchPerThread * threads; }

private:
  /// The primitive for one tile size. Memory objects carry the addresses, so
  /// each thread has its own.
  struct Primitive {
    int64_t rows, columns;
    dnnl::matmul matmul;
    struct Arguments {
      dnnl::memory a, b, c, scratch;
      std::unordered_map<int, dnnl::memory> map;
    };
    std::vector<Arguments> perThread;
  };

  MatmulProducts(const GemmShape &shape, int threads)
      : TiledGemm(shape, threads) {
    static dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
    stream = dnnl::stream(cpu);
    OneThread scope;
    add(cpu, tiling.tileM, tiling.tileN);
    int64_t lastM = this->shape.m - (tiling.countM - 1) * tiling.tileM;
    int64_t lastN = this->shape.n - (tiling.countN - 1) * tiling.tileN;
    if (lastM != tiling.tileM || lastN != tiling.tileN)
      add(cpu, lastM, lastN);
  }

  void add(const dnnl::engine &cpu, int64_t rows, int64_t columns) {
    // oneDNN caches primitives by dims and strides, but ignores the stride of a
    // dim of size one. Descriptions that differ only there must be made equal,
    // or the scratch size would depend on which was created first.
    auto description = [](int64_t rows, int64_t columns, bool transpose,
                          int64_t leading) {
      dnnl::memory::dims strides = transpose ? dnnl::memory::dims{1, leading}
                                             : dnnl::memory::dims{leading, 1};
      if (columns == 1 && strides[0] == 1)
        strides[1] = rows;
      else if (rows == 1 && strides[1] == 1)
        strides[0] = columns;
      return dnnl::memory::desc({rows, columns}, dnnl::memory::data_type::f32,
                                strides);
    };
    auto a = description(rows, shape.k, shape.transposeA, shape.lda);
    auto b = description(shape.k, columns, shape.transposeB, shape.ldb);
    auto c = description(rows, columns, false, shape.ldc);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (shape.alpha != 1)
      attributes.set_output_scales(0, {shape.alpha});
    if (shape.beta != 0) {
      dnnl::post_ops sum;
      sum.append_sum(shape.beta);
      attributes.set_post_ops(sum);
    }
    dnnl::matmul::primitive_desc chosen(dnnl::matmul::desc(a, b, c), attributes,
                                        cpu);
    Primitive primitive{rows, columns, dnnl::matmul(chosen), {}};
    for (int thread = 0; thread < threads; ++thread) {
      dnnl::memory memories[] = {
          dnnl::memory(a, cpu, nullptr), dnnl::memory(b, cpu, nullptr),
          dnnl::memory(c, cpu, nullptr),
          dnnl::memory(chosen.scratchpad_desc(), cpu, nullptr)};
      primitive.perThread.push_back({memories[0],
                                     memories[1],
                                     memories[2],
                                     memories[3],
                                     {{DNNL_ARG_SRC, memories[0]},
                                      {DNNL_ARG_WEIGHTS, memories[1]},
                                      {DNNL_ARG_DST, memories[2]},
                                      {DNNL_ARG_SCRATCHPAD, memories[3]}}});
    }
    uint64_t bytes = chosen.scratchpad_desc().get_size();
    scratchPerThread = std::max(scratchPerThread, (bytes + 63) / 64 * 64);
    primitives.push_back(std::move(primitive));
  }

  bool compute(const Tile &tile) override {
    try {
      Primitive &primitive = tile.rows == primitives[0].rows &&
                                     tile.columns == primitives[0].columns
                                 ? primitives[0]
                                 : primitives.back();
      auto &arguments = primitive.perThread[tile.thread];
      arguments.a.set_data_handle(const_cast<float *>(tile.a));
      arguments.b.set_data_handle(const_cast<float *>(tile.b));
      arguments.c.set_data_handle(tile.c);
      arguments.scratch.set_data_handle(tile.scratch +
                                        tile.thread * scratchPerThread);
      primitive.matmul.execute(stream, arguments.map);
      return true;
    } catch (const std::exception &) {
      return false;
    }
  }

  dnnl::stream stream;
  std::vector<Primitive> primitives;
  uint64_t scratchPerThread = 0;
};

} // namespace

static Result<void> checkTypes(const GemmShape &shape) {
  for (ElementType type : {shape.operands, shape.accumulator, shape.result})
    if (type != ElementType::F32)
      return Error{"gemm " + describe(shape) + ": oneDNN multiplies " +
                       nameOf(ElementType::F32) + " here, and the plan has " +
                       nameOf(type),
                   Error::Fault::Rank};
  return {};
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
  if (shape.library == GemmLibrary::Sgemm)
    return std::unique_ptr<PreparedGemm>(new SgemmProducts(simple, threads));
  return MatmulProducts::create(simple, threads);
}

Result<uint64_t> gemmScratchBytes(const GemmShape &shape, int threads) {
  if (shape.library == GemmLibrary::Sgemm && shape.grouped == GemmGroups::None)
    return uint64_t(0); // without loading oneDNN
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
  if (shape.pieces)
    text += " in " + std::to_string(shape.pieces);
  return text + " (" + nameOf(shape.library) + ")";
}

} // namespace polyrank::runtime
