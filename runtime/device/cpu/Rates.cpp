// Measures the rates of this CPU, from which the floors of command times
// follow.

#include "runtime/device/cpu/CpuDevice.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <sys/mman.h>

namespace polyrank::runtime {
namespace {

constexpr int repetitions = 4;

/// Zeros on huge pages, like a plan's memory.
struct FloatArray {
  explicit FloatArray(int64_t size) : size(size) {
    constexpr uint64_t hugePage = 2 << 20;
    uint64_t bytes =
        (size * sizeof(float) + hugePage - 1) / hugePage * hugePage;
    data = static_cast<float *>(std::aligned_alloc(hugePage, bytes));
    if (!data)
      return;
    madvise(data, bytes, MADV_HUGEPAGE);
    std::fill_n(data, size, 0.0f);
  }
  FloatArray(const FloatArray &) = delete;
  FloatArray &operator=(const FloatArray &) = delete;
  ~FloatArray() { std::free(data); }

  int64_t size;
  float *data = nullptr;
};

template <typename Work>
Result<double> leastSeconds(const Work &work) {
  double least = std::numeric_limits<double>::infinity();
  for (int n = -1; n < repetitions; ++n) { // the first is a warm-up
    auto start = std::chrono::steady_clock::now();
    if (Result<void> done = work(); !done)
      return done.error();
    std::chrono::duration<double> taken =
        std::chrono::steady_clock::now() - start;
    if (n >= 0)
      least = std::min(least, taken.count());
  }
  return least;
}

Error noMemory() {
  return {"no memory to measure what this machine reaches", Error::Fault::Rank};
}

} // namespace

Result<DeviceRates>
CpuDevice::measureRates(std::span<const ElementType> narrow) {
  DeviceRates rates;
  constexpr int64_t side = 1536, elements = 16 << 20;
  {
    FloatArray a(side * side), b(side * side), c(side * side);
    if (!a.data || !b.data || !c.data)
      return noMemory();
    auto measure = [&](ElementType elements, GemmLibrary library,
                       double &rate) -> Result<void> {
      GemmShape shape;
      shape.library = library;
      shape.m = shape.n = shape.k = side;
      shape.lda = shape.ldb = shape.ldc = side;
      shape.operands = elements;
      POLYRANK_ASSIGN(product, prepareGemm(shape, team->size()));
      FloatArray scratch(product->scratchBytes() / sizeof(float) + 1);
      if (!scratch.data)
        return noMemory();
      POLYRANK_ASSIGN(seconds, leastSeconds([&] {
                        return product->run(
                            {a.data, b.data, c.data, scratch.data});
                      }));
      rate = std::max(rate, 2.0 * side * side * side / seconds);
      return {};
    };
    for (GemmLibrary library : {GemmLibrary::Sgemm, GemmLibrary::Matmul})
      if (Result<void> done =
              measure(ElementType::F32, library, rates.flopsPerSecond);
          !done)
        return done.error();
    for (ElementType elements : narrow)
      for (GemmLibrary library : {GemmLibrary::Widened, GemmLibrary::Matmul})
        if (library != GemmLibrary::Matmul ||
            hasNarrowMatmul(elements, ElementType::F32))
          if (Result<void> done =
                  measure(elements, library, rates.narrow[elements]);
              !done)
            return done.error();
  }
  FloatArray x(elements), y(elements);
  if (!x.data || !y.data)
    return noMemory();
  POLYRANK_ASSIGN(seconds, leastSeconds([&]() -> Result<void> {
                    team->parallelFor(elements, 4096,
                                      [&](int64_t begin, int64_t end) {
                                        for (int64_t i = begin; i < end; ++i)
                                          x.data[i] += y.data[i];
                                      });
                    return {};
                  }));
  rates.bytesPerSecond = 3.0 * sizeof(float) * elements / seconds;
  return rates;
}

} // namespace polyrank::runtime
