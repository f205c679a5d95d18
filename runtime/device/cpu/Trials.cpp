// Products and additions on the CPU that are measured without a plan.

#include "runtime/device/cpu/CpuDevice.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sys/mman.h>

namespace polyrank::runtime {

/// The memory that all trials of a device work in. It grows, and then moves.
struct TrialMemory {
  struct Array {
    Array() = default;
    Array(const Array &) = delete;
    ~Array() { std::free(data); }

    /// Makes it large enough, on huge pages, like a plan's memory.
    Result<void> reserve(uint64_t needed);

    uint64_t bytes = 0;
    std::byte *data = nullptr;
  };

  /// What repetitions find elsewhere lies in arrays of at least this size,
  /// which few caches hold, one after another.
  static constexpr uint64_t leastBytes = 64 << 20;

  Array left, right, result, scratch;
};

Result<void> TrialMemory::Array::reserve(uint64_t needed) {
  if (needed <= bytes)
    return {};
  constexpr uint64_t hugePage = 2 << 20;
  needed = (needed + hugePage - 1) / hugePage * hugePage;
  void *larger = std::aligned_alloc(hugePage, needed);
  if (!larger)
    return Error{"no memory to measure what this machine reaches",
                 Error::Fault::Rank};
  madvise(larger, needed, MADV_HUGEPAGE);
  // As a pair of narrow floats this is 0.5 and 0.
  std::fill_n(static_cast<float *>(larger), needed / sizeof(float), 0.5f);
  std::free(data);
  data = static_cast<std::byte *>(larger);
  bytes = needed;
  return {};
}

namespace {

class Product : public Trial {
public:
  Product(std::unique_ptr<PreparedGemm> product,
          std::shared_ptr<TrialMemory> memory, uint64_t rightBytes)
      : product(std::move(product)), memory(std::move(memory)),
        step((rightBytes + 63) / 64 * 64) {}

  Result<void> run() override {
    if (at + step > memory->right.bytes)
      at = 0;
    std::byte *right = memory->right.data + at;
    at += step;
    return product->run(
        {memory->left.data, right, memory->result.data, memory->scratch.data});
  }

private:
  std::unique_ptr<PreparedGemm> product;
  std::shared_ptr<TrialMemory> memory;
  uint64_t step, at = 0; // in the array of right operands
};

class Addition : public Trial {
public:
  Addition(int64_t elements, std::shared_ptr<const HostTeam> team,
           std::shared_ptr<TrialMemory> memory)
      : elements(elements), team(std::move(team)), memory(std::move(memory)) {}

  Result<void> run() override {
    if (at + elements > static_cast<int64_t>(TrialMemory::leastBytes / 4))
      at = 0;
    auto *sum = reinterpret_cast<float *>(memory->result.data) + at;
    auto *added = reinterpret_cast<const float *>(memory->right.data) + at;
    at += elements;
    team->parallelFor(elements, 4096, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        sum[i] += added[i];
    });
    return {};
  }

private:
  int64_t elements, at = 0;
  std::shared_ptr<const HostTeam> team;
  std::shared_ptr<TrialMemory> memory;
};

GemmShape shapeOf(const ProductTrial &work, GemmLibrary library) {
  GemmShape shape;
  shape.library = library;
  shape.m = work.m, shape.n = work.n, shape.k = work.k;
  shape.transposeA = work.transposeA, shape.transposeB = work.transposeB;
  shape.lda = work.transposeA ? work.m : work.k;
  shape.ldb = work.transposeB ? work.k : work.n;
  shape.ldc = work.n;
  if (work.batch > 1)
    shape.batch = {
        {work.batch, work.m * work.k, work.k * work.n, work.m * work.n}};
  shape.operands = work.elements;
  shape.result = work.result;
  return shape;
}

/// The libraries that a plan on this machine may use for such elements.
std::vector<GemmLibrary> librariesFor(const ProductTrial &work) {
  if (work.elements == ElementType::F32)
    return {GemmLibrary::Sgemm, GemmLibrary::Matmul};
  if (hasNarrowMatmul(work.elements, work.result))
    return {GemmLibrary::Widened, GemmLibrary::Matmul};
  return {GemmLibrary::Widened};
}

} // namespace

Result<Trials> CpuDevice::prepareTrials(const TrialWork &work) {
  if (!trialMemory)
    trialMemory = std::make_shared<TrialMemory>();
  Trials trials;
  if (const auto *addition = std::get_if<AdditionTrial>(&work)) {
    uint64_t bytes =
        std::max(TrialMemory::leastBytes,
                 static_cast<uint64_t>(addition->elements) * sizeof(float));
    for (TrialMemory::Array *array :
         {&trialMemory->result, &trialMemory->right})
      if (Result<void> done = array->reserve(bytes); !done)
        return done.error();
    trials.push_back(
        std::make_unique<Addition>(addition->elements, team, trialMemory));
    return trials;
  }
  const auto &product = std::get<ProductTrial>(work);
  auto bytesOf = [&](int64_t rows, int64_t columns, ElementType elements) {
    return static_cast<uint64_t>(product.batch * rows * columns) *
           polyrank::bytesOf(elements);
  };
  uint64_t right = bytesOf(product.k, product.n, product.elements);
  for (auto [array, bytes] :
       {std::pair(&trialMemory->left,
                  bytesOf(product.m, product.k, product.elements)),
        {&trialMemory->right, std::max(TrialMemory::leastBytes, right)},
        {&trialMemory->result, bytesOf(product.m, product.n, product.result)}})
    if (Result<void> done = array->reserve(bytes); !done)
      return done.error();
  for (GemmLibrary library : librariesFor(product)) {
    POLYRANK_ASSIGN(prepared,
                    prepareGemm(shapeOf(product, library), team->size()));
    if (Result<void> done =
            trialMemory->scratch.reserve(prepared->scratchBytes() + 1);
        !done)
      return done.error();
    trials.push_back(
        std::make_unique<Product>(std::move(prepared), trialMemory, right));
  }
  return trials;
}

} // namespace polyrank::runtime
