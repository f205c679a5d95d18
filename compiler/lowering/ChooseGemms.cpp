// ChooseGemms: each product names the library call that computes it.

#include <chrono>
#include <memory>

#include "compiler/lowering/GemmLibrary.h"
#include "compiler/lowering/Passes.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::lowering;

namespace polyrank::lowering {
#define GEN_PASS_DEF_CHOOSEGEMMS
#include "compiler/lowering/Passes.h.inc"
} // namespace polyrank::lowering

/// Work from which a product is worth a measurement: half a millisecond.
static constexpr double worthMeasuring = 1e8;
/// The choice without a measurement wins unless the other is faster by this
/// much, so that noise does not decide.
static constexpr double clearlyFaster = 0.95;
/// Runs of each candidate, interleaved; fewer where they take long.
static constexpr int mostRuns = 7, fewestRuns = 3;
static constexpr double enoughSeconds = 0.05;

/// Of a larger product a part is measured: it consists of tiles that are alike.
static constexpr double enoughWork = 4e9;

static double flopsOf(const runtime::GemmShape &shape) {
  double flops = 2.0 * shape.m * shape.n * shape.k;
  for (const runtime::GemmBatchDim &dim : shape.batch)
    flops *= dim.count;
  return flops;
}

/// Floats from the first to the last element of an operand.
static int64_t extentOf(const runtime::GemmShape &shape, int64_t rows,
                        int64_t columns, int64_t leading,
                        int64_t runtime::GemmBatchDim::*stride) {
  int64_t extent = (rows - 1) * leading + columns;
  for (const runtime::GemmBatchDim &dim : shape.batch)
    extent += (dim.count - 1) * dim.*stride;
  return extent;
}

/// `shape` with fewer batches, rows and columns, where it is large; as far apart
/// in memory as before.
static runtime::GemmShape partOf(runtime::GemmShape shape) {
  auto cut = [&](int64_t size, int64_t least, int64_t unit) {
    double share = enoughWork / flopsOf(shape);
    if (share >= 1 || size <= least)
      return size;
    auto kept = static_cast<uint64_t>(static_cast<double>(size) * share);
    return std::min(size, std::max<int64_t>(least, llvm::alignTo(kept, unit)));
  };
  for (runtime::GemmBatchDim &dim : shape.batch)
    dim.count = cut(dim.count, 1, 1);
  shape.m = cut(shape.m, 512, 64);
  shape.n = cut(shape.n, 1024, 64);
  return shape;
}

namespace {

/// Memory to measure in, zero and touched once.
class Workspace {
public:
  float *get(int64_t count) {
    constexpr size_t page = 2 << 20;
    size_t bytes = llvm::alignTo(count * sizeof(float), page);
    if (bytes > size) {
      memory.reset(static_cast<float *>(std::aligned_alloc(page, bytes)));
      size = memory ? bytes : 0;
      if (memory)
        std::memset(memory.get(), 0, bytes);
    }
    return memory.get();
  }

private:
  struct Free {
    void operator()(float *pointer) const { std::free(pointer); }
  };
  std::unique_ptr<float, Free> memory;
  size_t size = 0;
};

class GemmChooser {
public:
  explicit GemmChooser(int64_t threads) : threads(threads) {}

  /// The library for `shape`, whose own is the choice without measurement.
  runtime::GemmLibrary choose(runtime::GemmShape shape) {
    for (auto &[known, library] : choices)
      if (known == shape)
        return library;
    runtime::GemmLibrary library = measure(shape);
    choices.push_back({shape, library});
    return library;
  }

private:
  runtime::GemmLibrary measure(const runtime::GemmShape &whole);

  int64_t threads;
  Workspace a, b, c, scratch;
  std::vector<std::pair<runtime::GemmShape, runtime::GemmLibrary>> choices;
};

} // namespace

runtime::GemmLibrary GemmChooser::measure(const runtime::GemmShape &whole) {
  using runtime::GemmLibrary;
  auto prefer = whole.library;
  if (flopsOf(whole) < worthMeasuring)
    return prefer;
  runtime::GemmShape shape = partOf(whole);
  auto other = prefer == GemmLibrary::Sgemm ? GemmLibrary::Matmul
                                            : GemmLibrary::Sgemm;
  using Batch = runtime::GemmBatchDim;
  float *inputs[2] = {
      shape.transposeA
          ? a.get(extentOf(shape, shape.k, shape.m, shape.lda, &Batch::aStride))
          : a.get(extentOf(shape, shape.m, shape.k, shape.lda, &Batch::aStride)),
      shape.transposeB
          ? b.get(extentOf(shape, shape.n, shape.k, shape.ldb, &Batch::bStride))
          : b.get(
                extentOf(shape, shape.k, shape.n, shape.ldb, &Batch::bStride))};
  float *result =
      c.get(extentOf(shape, shape.m, shape.n, shape.ldc, &Batch::cStride));
  struct Candidate {
    GemmLibrary library;
    std::unique_ptr<runtime::PreparedGemm> product;
    double best = std::numeric_limits<double>::infinity();
  };
  Candidate candidates[2] = {{prefer, nullptr}, {other, nullptr}};
  for (Candidate &candidate : candidates) {
    runtime::GemmShape called = shape;
    called.library = candidate.library;
    auto product = runtime::prepareGemm(called, static_cast<int>(threads));
    if (!product || !inputs[0] || !inputs[1] || !result)
      return prefer;
    candidate.product = *std::move(product);
  }
  double spent = 0;
  for (int run = 0; run < mostRuns; ++run) {
    if (run >= fewestRuns && spent > enoughSeconds)
      break;
    for (Candidate &candidate : candidates) {
      void *memory = scratch.get(
          candidate.product->scratchBytes() / sizeof(float) + 1);
      auto start = std::chrono::steady_clock::now();
      if (!memory ||
          !candidate.product->run(inputs[0], inputs[1], result, memory))
        return prefer;
      double seconds = std::chrono::duration<double>(
                           std::chrono::steady_clock::now() - start)
                           .count();
      spent += seconds;
      candidate.best = std::min(candidate.best, seconds);
    }
  }
  return candidates[1].best < clearlyFaster * candidates[0].best ? other
                                                                 : prefer;
}

namespace {
struct ChooseGemmsPass : lowering::impl::ChooseGemmsBase<ChooseGemmsPass> {
  using ChooseGemmsBase::ChooseGemmsBase;

  void runOnOperation() override {
    GemmChooser chooser(threads);
    getOperation().walk([&](rank::GemmOp gemm) {
      runtime::GemmShape shape = getGemmShape(gemm);
      if (measure)
        shape.library = chooser.choose(shape);
      setGemmLibrary(gemm, shape.library);
    });
  }
};
} // namespace
