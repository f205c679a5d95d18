// Chooses which of oneDNN's functions computes each product.

#include "compiler/target/cpu/ChooseCalls.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "support/Cores.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::cpu;

/// The least work for which a product is measured: half a millisecond.
static constexpr double worthMeasuring = 1e8;
/// The default choice wins unless another one is faster by this factor, so that
/// noise does not decide.
static constexpr double clearlyFaster = 0.95;
/// The number of runs of each candidate, interleaved; fewer if they take long.
static constexpr int mostRuns = 7, fewestRuns = 3;
static constexpr double enoughSeconds = 0.05;
/// A candidate that is slower than the best by this factor is dropped, after
/// the first run and later.
static constexpr double hopelessAtFirst = 1.2, hopeless = 1.1;
/// A candidate that is slower by this factor than the default choice, which it
/// would have to beat clearly, is dropped too.
static constexpr double uselessAtFirst = 1.1, useless = 1.0;
/// The smallest width of a piece.
static constexpr int64_t leastWidth = 192;
/// Products are measured concurrently, as the ranks of one machine compute
/// them, but by no more teams than this: each team has memory of its own.
static constexpr int64_t mostTeams = 4;

/// The work for each thread. Only a part of a larger product is measured, since
/// it consists of similar tiles. With less, steps of GPT-2 124M get 5 to 9 %
/// slower.
static constexpr double enoughWork = 5e8;

double cpu::estimateProducts(int64_t m, int64_t n, int64_t k,
                             int64_t products) {
  auto saturation = [](int64_t size, double half) {
    return size / (size + half);
  };
  double rate = 50 * saturation(m, 4) * saturation(n, 16) * saturation(k, 16);
  return products * (2.0 * m * n * k / rate + 300);
}

static double flopsOf(const runtime::GemmShape &shape) {
  double flops = 2.0 * shape.m * shape.n * shape.k;
  for (const runtime::GemmBatchDim &dim : shape.batch)
    flops *= dim.count;
  return flops;
}

/// The number of elements from the first to the last one of an operand.
static int64_t extentOf(const runtime::GemmShape &shape, int64_t rows,
                        int64_t columns, int64_t leading,
                        int64_t runtime::GemmBatchDim::*stride) {
  int64_t extent = (rows - 1) * leading + columns;
  for (const runtime::GemmBatchDim &dim : shape.batch)
    extent += (dim.count - 1) * dim.*stride;
  return extent;
}

/// A part of a large `shape`, with fewer batches, rows and columns and shorter
/// sums, but the same strides.
static runtime::GemmShape partOf(runtime::GemmShape shape, int64_t threads) {
  auto cut = [&](int64_t size, int64_t least, int64_t unit) {
    double share = enoughWork * threads / flopsOf(shape);
    if (share >= 1 || size <= least)
      return size;
    auto kept = static_cast<uint64_t>(static_cast<double>(size) * share);
    return std::min(size, std::max<int64_t>(least, llvm::alignTo(kept, unit)));
  };
  for (runtime::GemmBatchDim &dim : shape.batch)
    dim.count = cut(dim.count, 1, 1);
  shape.m = cut(shape.m, 256, 64);
  shape.n = cut(shape.n, 768, 64);
  shape.k = cut(shape.k, 2048, 64);
  return shape;
}

namespace {

/// Memory for measurements, set to zero and touched once.
class Workspace {
public:
  void *get(size_t bytes) {
    constexpr size_t page = 2 << 20;
    bytes = llvm::alignTo(bytes, page);
    if (bytes > size) {
      memory.reset(std::aligned_alloc(page, bytes));
      size = memory ? bytes : 0;
      if (memory)
        std::memset(memory.get(), 0, bytes);
    }
    return memory.get();
  }

private:
  struct Free {
    void operator()(void *pointer) const { std::free(pointer); }
  };
  std::unique_ptr<void, Free> memory;
  size_t size = 0;
};

/// One team of threads and its memory.
class GemmChooser {
public:
  explicit GemmChooser(int64_t threads) : threads(threads) {}

  /// The call for `shape`, which has the default choice.
  GemmCall choose(const runtime::GemmShape &shape);

private:
  struct Candidate {
    GemmCall call;
    std::unique_ptr<runtime::PreparedGemm> product;
    double best = std::numeric_limits<double>::infinity();
  };
  std::vector<Candidate> candidatesFor(const runtime::GemmShape &whole,
                                       const runtime::GemmShape &part);
  bool run(std::vector<Candidate> &candidates, const runtime::GemmShape &shape);

  int64_t threads;
  Workspace a, b, c, scratch;
};

} // namespace

/// The functions that may compute the products of a shape, the default first.
static SmallVector<runtime::GemmLibrary>
librariesFor(const runtime::GemmShape &shape) {
  using runtime::GemmLibrary;
  switch (shape.library) {
  case GemmLibrary::Sgemm:
    return {GemmLibrary::Sgemm, GemmLibrary::Matmul};
  case GemmLibrary::Matmul:
    return {GemmLibrary::Matmul,
            shape.isNarrow() ? GemmLibrary::Widened : GemmLibrary::Sgemm};
  case GemmLibrary::Widened: // where the primitive is no choice
    break;
  }
  return {shape.library};
}

/// The candidates: all libraries, with the usual number of pieces and with
/// one, two or four for each thread. Fewer pieces copy less into the library's
/// own layout, more pieces keep the threads busy to the end. The first
/// candidate is the default choice.
std::vector<GemmChooser::Candidate>
GemmChooser::candidatesFor(const runtime::GemmShape &whole,
                           const runtime::GemmShape &part) {
  using runtime::GemmLibrary;
  SmallVector<int64_t> cuts = {0};
  if (whole.batch.empty())
    for (int64_t pieces : {threads, 2 * threads, 4 * threads})
      if (pieces != runtime::defaultPieces(whole) &&
          std::max(part.m, part.n) >= pieces * leastWidth)
        cuts.push_back(pieces);
  std::vector<Candidate> candidates;
  for (int64_t pieces : cuts)
    for (GemmLibrary library : librariesFor(whole)) {
      runtime::GemmShape called = part;
      called.library = library;
      called.pieces = pieces ? pieces : runtime::defaultPieces(whole);
      if (auto product =
              runtime::prepareGemm(called, static_cast<int>(threads)))
        candidates.push_back({{library, pieces}, *std::move(product)});
    }
  return candidates;
}

/// Runs the candidates round-robin while they are not dropped. Returns true if
/// all runs succeeded.
bool GemmChooser::run(std::vector<Candidate> &candidates,
                      const runtime::GemmShape &shape) {
  using Batch = runtime::GemmBatchDim;
  auto size = [&](bool transpose, int64_t rows, int64_t columns,
                  int64_t leading, int64_t Batch::*stride) {
    return bytesOf(shape.operands) *
           (transpose ? extentOf(shape, columns, rows, leading, stride)
                      : extentOf(shape, rows, columns, leading, stride));
  };
  const void *left = a.get(size(shape.transposeA, shape.m, shape.k, shape.lda,
                                &Batch::aStride)),
             *right = b.get(size(shape.transposeB, shape.k, shape.n, shape.ldb,
                                 &Batch::bStride));
  void *result =
      c.get(bytesOf(shape.result) *
            extentOf(shape, shape.m, shape.n, shape.ldc, &Batch::cStride));
  if (!left || !right || !result)
    return false;
  double spent = 0, best = std::numeric_limits<double>::infinity();
  for (int run = 0; run < mostRuns; ++run) {
    if (run >= fewestRuns && spent > enoughSeconds)
      break;
    double usual = candidates.front().best,
           limit = run <= 1 ? std::min(hopelessAtFirst * best,
                                       uselessAtFirst * usual)
                            : std::min(hopeless * best, useless * usual);
    auto isOut = [&](const Candidate &candidate) {
      return run > 0 && candidate.best > limit;
    };
    if (llvm::all_of(llvm::drop_begin(candidates), isOut))
      break;
    for (Candidate &candidate : candidates) {
      if (isOut(candidate) && &candidate != &candidates.front())
        continue;
      void *memory = scratch.get(candidate.product->scratchBytes() + 1);
      auto start = std::chrono::steady_clock::now();
      if (!memory || !candidate.product->run({left, right, result, memory}))
        return false;
      double seconds = std::chrono::duration<double>(
                           std::chrono::steady_clock::now() - start)
                           .count();
      spent += seconds;
      candidate.best = std::min(candidate.best, seconds);
      best = std::min(best, seconds);
    }
  }
  return true;
}

GemmCall GemmChooser::choose(const runtime::GemmShape &whole) {
  GemmCall usual{whole.library};
  if (flopsOf(whole) < worthMeasuring ||
      whole.grouped != runtime::GemmGroups::None)
    return usual;
  runtime::GemmShape part = partOf(whole, threads);
  std::vector<Candidate> candidates = candidatesFor(whole, part);
  if (candidates.empty() || candidates.front().call.library != usual.library ||
      !run(candidates, part))
    return usual;
  auto fastest =
      llvm::min_element(candidates, [](const Candidate &x, const Candidate &y) {
        return x.best < y.best;
      });
  return fastest->best < clearlyFaster * candidates.front().best ? fastest->call
                                                                 : usual;
}

/// The call for each of `shapes`.
static std::vector<GemmCall>
chooseSideBySide(ArrayRef<runtime::GemmShape> shapes, int64_t threads) {
  std::vector<GemmCall> calls(shapes.size());
  std::atomic<size_t> next = 0;
  auto work = [&] {
    GemmChooser chooser(threads);
    for (size_t i; (i = next++) < shapes.size();)
      calls[i] = chooser.choose(shapes[i]);
  };
  int64_t teams = std::min<int64_t>({usableCores() / threads, mostTeams,
                                     static_cast<int64_t>(shapes.size())});
  std::vector<std::thread> others;
  for (int64_t team = 1; team < teams; ++team)
    others.emplace_back(work);
  work();
  for (std::thread &other : others)
    other.join();
  return calls;
}

std::vector<GemmCall> cpu::chooseCalls(ArrayRef<runtime::GemmShape> shapes,
                                       int64_t threads, bool measure) {
  if (measure)
    return chooseSideBySide(shapes, threads);
  std::vector<GemmCall> calls;
  for (const runtime::GemmShape &shape : shapes)
    calls.push_back({shape.library});
  return calls;
}
