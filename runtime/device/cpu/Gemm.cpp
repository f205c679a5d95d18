// oneDNN behind PreparedGemm. Its C++ interface throws; nothing leaves here.

#include "runtime/device/cpu/Gemm.h"

#include "runtime/device/cpu/OneDnn.h"

#include <algorithm>
#include <atomic>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

extern "C" {
void GOMP_parallel(void (*body)(void *), void *data, unsigned threads,
                   unsigned flags);
int omp_get_thread_num();
int omp_get_num_threads();
int omp_get_max_threads();
void omp_set_num_threads(int threads);
}

namespace polyrank::runtime {
namespace {

Error libraryError(const GemmShape &shape, const char *what) {
  return Error{"gemm " + describe(shape) + ": oneDNN: " + what,
               Error::Fault::Rank};
}

/// The same products with fewer batch dims: dims of one are dropped, and
/// neighbours that one stride walks through are merged.
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

/// A batch whose products share B and whose rows follow each other is one
/// product of more rows.
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

/// oneDNN takes the number of threads from OpenMP, when it makes a primitive
/// and when it runs sgemm.
struct OneThread {
  int before = omp_get_max_threads();
  OneThread() {
    if (before != 1)
      omp_set_num_threads(1);
  }
  ~OneThread() {
    if (before != 1)
      omp_set_num_threads(before);
  }
};

/// Tiles begin at multiples of this.
constexpr int64_t tileAlign = 16;

/// The same product without needless batch dims.
GemmShape simplified(GemmShape shape) {
  shape.batch = merged(shape.batch);
  foldBatchIntoRows(shape);
  return shape;
}

int64_t productsOf(const GemmShape &shape) {
  int64_t products = 1;
  for (const GemmBatchDim &dim : shape.batch)
    products *= dim.count;
  return products;
}

/// As many as keep a team busy, none narrower than 192 where there are more
/// than two.
int64_t piecesOf(const GemmShape &shape) {
  constexpr int64_t worthCutting = 1 << 20, maxPieces = 16, minWidth = 192;
  int64_t products = productsOf(shape), side = std::max(shape.m, shape.n);
  if (shape.m * shape.n * shape.k < worthCutting || products >= maxPieces ||
      side < 2 * tileAlign)
    return 1;
  int64_t pieces = 2;
  while (pieces * products < maxPieces && side >= 2 * pieces * minWidth)
    pieces *= 2;
  return pieces;
}

/// How the products of a batch are cut into tasks: each task is one tile of one
/// product, computed by one thread. The cut never depends on the number of
/// threads, because oneDNN's own partition changes the order of sums (matrix
/// times vector, transposed A with a long k).
struct Tiling {
  explicit Tiling(const GemmShape &shape)
      : products(productsOf(shape)), tileM(shape.m), tileN(shape.n) {
    int64_t pieces = shape.pieces ? shape.pieces : piecesOf(shape);
    int64_t &side = shape.n >= shape.m ? tileN : tileM;
    side = ((side + pieces - 1) / pieces + tileAlign - 1) / tileAlign *
           tileAlign;
    tileM = std::min(tileM, shape.m), tileN = std::min(tileN, shape.n);
    countM = (shape.m + tileM - 1) / tileM,
    countN = (shape.n + tileN - 1) / tileN;
  }

  int64_t tasks() const { return products * countM * countN; }

  int64_t products;
  int64_t tileM, tileN;   // the last tile of a side may be smaller
  int64_t countM, countN; // one of them is 1
};

/// Runs the tasks of a tiling on the team.
class TiledGemm : public PreparedGemm {
public:
  TiledGemm(const GemmShape &shape, int threads)
      : shape(shape), tiling(shape), threads(threads) {}

  Result<void> run(const float *a, const float *b, float *c,
                   void *scratch) override {
    Call call{this, a, b, c, static_cast<std::byte *>(scratch)};
    int64_t tasks = tiling.tasks();
    if (threads > 1 && tasks > 1 &&
        tasks * tiling.tileM * tiling.tileN * shape.k >= worthATeam)
      // oneDNN sees that it is called inside the team and uses one thread.
      GOMP_parallel(
          [](void *data) {
            Call &call = *static_cast<Call *>(data);
            call.self->runTasks(call, omp_get_thread_num());
          },
          &call, threads, 0);
    else {
      OneThread scope;
      runTasks(call, 0);
    }
    if (call.failed)
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
  static constexpr int64_t worthATeam = 1 << 16;

  struct Call {
    TiledGemm *self;
    const float *a, *b;
    float *c;
    std::byte *scratch;
    std::atomic<int64_t> next = 0;
    std::atomic<bool> failed = false;
  };

  /// A thread that is slowed down by others takes fewer tasks.
  void runTasks(Call &call, int64_t thread) {
    for (int64_t task; (task = call.next.fetch_add(
                            1, std::memory_order_relaxed)) < tiling.tasks();) {
      int64_t m0 = task % tiling.countM * tiling.tileM;
      int64_t n0 = task / tiling.countM % tiling.countN * tiling.tileN;
      int64_t product = task / (tiling.countM * tiling.countN);
      Tile tile{call.a + (shape.transposeA ? m0 : m0 * shape.lda),
                call.b + (shape.transposeB ? n0 * shape.ldb : n0),
                call.c + m0 * shape.ldc + n0,
                std::min(tiling.tileM, shape.m - m0),
                std::min(tiling.tileN, shape.n - n0),
                thread,
                call.scratch};
      for (size_t d = shape.batch.size(); d-- > 0;) {
        const GemmBatchDim &dim = shape.batch[d];
        int64_t index = product % dim.count;
        product /= dim.count;
        tile.a += index * dim.aStride, tile.b += index * dim.bStride;
        tile.c += index * dim.cStride;
      }
      if (!compute(tile))
        call.failed = true;
    }
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
  /// The primitive for one size of tile; memory objects carry the addresses,
  /// so each thread has its own.
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
    // oneDNN keeps primitives and finds them again by dims and strides, but not
    // by the stride of a dim of one: those that differ only there must not
    // differ, or the scratch would depend on which came first.
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

Result<std::unique_ptr<PreparedGemm>> prepareGemm(const GemmShape &shape,
                                                  int threads) {
  if (Result<void> loaded = loadOneDnn(); !loaded)
    return loaded.error();
  GemmShape simple = simplified(shape);
  if (shape.library == GemmLibrary::Sgemm)
    return std::unique_ptr<PreparedGemm>(new SgemmProducts(simple, threads));
  return MatmulProducts::create(simple, threads);
}

Result<uint64_t> gemmScratchBytes(const GemmShape &shape, int threads) {
  if (shape.library == GemmLibrary::Sgemm)
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
  if (shape.pieces)
    text += " in " + std::to_string(shape.pieces);
  return text + " (" + nameOf(shape.library) + ")";
}

} // namespace polyrank::runtime
