// A GEMM by oneDNN's matmul primitive. Its C++ interface throws; no exception
// leaves this file.

#include "runtime/device/cpu/TiledGemm.h"

#include <algorithm>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

namespace polyrank::runtime {
namespace {

dnnl::memory::data_type dataTypeOf(ElementType type) {
  return type == ElementType::BF16  ? dnnl::memory::data_type::bf16
         : type == ElementType::F16 ? dnnl::memory::data_type::f16
                                    : dnnl::memory::data_type::f32;
}

/// Returns the library's message. If not every machine multiplies such
/// elements, the way out follows.
std::string explain(const GemmShape &shape, const std::exception &exception) {
  std::string text = exception.what();
  if (shape.isNarrow())
    text += std::string(": on this machine it may have no product of ") +
            nameOf(shape.operands) + "; compile again on this machine";
  return text;
}

class MatmulProducts final : public TiledGemm {
public:
  static Result<std::unique_ptr<PreparedGemm>> create(const GemmShape &shape,
                                                      int threads) {
    try {
      return std::unique_ptr<PreparedGemm>(new MatmulProducts(shape, threads));
    } catch (const std::exception &exception) {
      return libraryError(shape, explain(shape, exception));
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
    auto description = [](ElementType type, int64_t rows, int64_t columns,
                          bool transpose, int64_t leading) {
      dnnl::memory::dims strides = transpose ? dnnl::memory::dims{1, leading}
                                             : dnnl::memory::dims{leading, 1};
      if (columns == 1 && strides[0] == 1)
        strides[1] = rows;
      else if (rows == 1 && strides[1] == 1)
        strides[0] = columns;
      return dnnl::memory::desc({rows, columns}, dataTypeOf(type), strides);
    };
    auto a =
        description(shape.operands, rows, shape.k, shape.transposeA, shape.lda);
    auto b = description(shape.operands, shape.k, columns, shape.transposeB,
                         shape.ldb);
    auto c = description(shape.result, rows, columns, false, shape.ldc);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    dnnl::post_ops after;
    if (shape.alpha != 1)
#if DNNL_VERSION_MAJOR < 3
      attributes.set_output_scales(0, {shape.alpha});
#else
      after.append_eltwise(dnnl::algorithm::eltwise_linear, shape.alpha, 0);
#endif
    if (shape.beta != 0)
      after.append_sum(shape.beta);
    attributes.set_post_ops(after);
#if DNNL_VERSION_MAJOR < 3
    dnnl::matmul::primitive_desc chosen(dnnl::matmul::desc(a, b, c), attributes,
                                        cpu);
#else
    dnnl::matmul::primitive_desc chosen(cpu, a, b, c, attributes);
#endif
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
      arguments.a.set_data_handle(const_cast<std::byte *>(tile.a));
      arguments.b.set_data_handle(const_cast<std::byte *>(tile.b));
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

Result<std::unique_ptr<PreparedGemm>> prepareMatmul(const GemmShape &shape,
                                                    int threads) {
  return MatmulProducts::create(shape, threads);
}

} // namespace polyrank::runtime
