// The CPU device: products against a plain loop, bits that do not depend on the
// threads, kernels that are loaded and those that are refused.

#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/device/cpu/CpuFeatures.h"
#include "runtime/device/cpu/ElfCheck.h"
#include "test/runtime/PlanBuilder.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <elf.h>
#include <gtest/gtest.h>
#include <oneapi/dnnl/dnnl.hpp>
#include <random>

extern "C" void omp_set_num_threads(int threads);

namespace polyrank::runtime::test {
namespace {

struct Operands {
  std::vector<float> a, b, c;
};

/// Operands that are large enough for the shape, filled with random numbers.
Operands operandsFor(const GemmShape &shape) {
  auto extent = [&](int64_t rows, int64_t columns, int64_t leading,
                    int64_t GemmBatchDim::*stride) {
    int64_t size = (rows - 1) * leading + columns;
    for (const GemmBatchDim &dim : shape.batch)
      size += (dim.count - 1) * (dim.*stride);
    return size;
  };
  bool ta = shape.transposeA, tb = shape.transposeB;
  Operands operands;
  operands.a.resize(extent(ta ? shape.k : shape.m, ta ? shape.m : shape.k,
                           shape.lda, &GemmBatchDim::aStride));
  operands.b.resize(extent(tb ? shape.n : shape.k, tb ? shape.k : shape.n,
                           shape.ldb, &GemmBatchDim::bStride));
  operands.c.resize(
      extent(shape.m, shape.n, shape.ldc, &GemmBatchDim::cStride));
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (std::vector<float> *values : {&operands.a, &operands.b, &operands.c})
    for (float &value : *values)
      value = normal(random);
  return operands;
}

void naive(const GemmShape &shape, const float *a, const float *b, float *c,
           size_t dim = 0) {
  if (dim < shape.batch.size()) {
    const GemmBatchDim &batch = shape.batch[dim];
    for (int64_t i = 0; i < batch.count; ++i)
      naive(shape, a + i * batch.aStride, b + i * batch.bStride,
            c + i * batch.cStride, dim + 1);
    return;
  }
  for (int64_t i = 0; i < shape.m; ++i)
    for (int64_t j = 0; j < shape.n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < shape.k; ++l)
        sum += double(shape.transposeA ? a[l * shape.lda + i]
                                       : a[i * shape.lda + l]) *
               (shape.transposeB ? b[j * shape.ldb + l] : b[l * shape.ldb + j]);
      float &out = c[i * shape.ldc + j];
      out = static_cast<float>(shape.alpha * sum + shape.beta * out);
    }
}

std::vector<float> run(const GemmShape &shape, int threads) {
  omp_set_num_threads(threads);
  Operands operands = operandsFor(shape);
  auto prepared = prepareGemm(shape, threads);
  EXPECT_TRUE(prepared) << prepared.error().message;
  std::vector<std::byte> memory((*prepared)->scratchBytes() + 64);
  auto address = reinterpret_cast<uintptr_t>(memory.data());
  auto *scratch = reinterpret_cast<void *>((address + 63) / 64 * 64);
  auto done = (*prepared)->run(operands.a.data(), operands.b.data(),
                               operands.c.data(), scratch);
  EXPECT_TRUE(done) << done.error().message;
  return operands.c;
}

GemmShape shapeFrom(int64_t m, int64_t n, int64_t k, bool ta, bool tb,
                    int64_t pad, std::vector<GemmBatchDim> batch = {}) {
  GemmShape shape;
  shape.m = m, shape.n = n, shape.k = k;
  shape.transposeA = ta, shape.transposeB = tb;
  shape.lda = (ta ? m : k) + pad, shape.ldb = (tb ? k : n) + pad;
  shape.ldc = n + pad;
  shape.batch = std::move(batch);
  return shape;
}

std::vector<GemmShape> shapes() {
  std::vector<GemmShape> result;
  for (bool ta : {false, true})
    for (bool tb : {false, true}) {
      result.push_back(shapeFrom(3, 5, 7, ta, tb, 0));
      result.push_back(shapeFrom(1, 300, 129, ta, tb, 2));
      result.push_back(shapeFrom(300, 1, 129, ta, tb, 1));
      result.push_back(shapeFrom(65, 400, 128, ta, tb, 3));
      result.push_back(shapeFrom(8, 4, 40000, ta, tb, 0));
      // A batch that shares b, and is folded into rows.
      result.push_back(shapeFrom(20, 30, 40, ta, tb, 0, {{5, 800, 0, 600}}));
    }
  // Attention: products of batch x heads, the heads interleaved in the rows.
  constexpr int64_t length = 16, heads = 3, width = 8;
  GemmShape scores =
      shapeFrom(length, length, width, false, true, 0,
                {{2, length * heads * width, length * heads * width,
                  heads * length * length},
                 {heads, width, width, length * length}});
  scores.lda = scores.ldb = heads * width;
  result.push_back(scores);
  GemmShape scaled = shapeFrom(30, 40, 50, false, true, 0);
  scaled.alpha = 0.125f, scaled.beta = 1;
  result.push_back(scaled);
  return result;
}

/// Shapes, cut into so many pieces.
std::vector<GemmShape> cutShapes(GemmLibrary library) {
  std::vector<GemmShape> result;
  for (GemmShape shape : shapes())
    for (int64_t pieces : {0, 1, 3, 8}) {
      shape.library = library;
      shape.pieces = pieces;
      result.push_back(shape);
    }
  return result;
}

class Products : public testing::TestWithParam<GemmLibrary> {};

TEST_P(Products, EqualAPlainLoop) {
  for (const GemmShape &shape : cutShapes(GetParam())) {
    Operands expected = operandsFor(shape);
    naive(shape, expected.a.data(), expected.b.data(), expected.c.data());
    std::vector<float> got = run(shape, 2);
    float tolerance = 1e-5f * std::sqrt(static_cast<float>(shape.k)) * 4;
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], expected.c[i], tolerance)
          << describe(shape) << " element " << i;
  }
}

TEST_P(Products, HaveTheSameBitsOnAnyNumberOfThreads) {
  for (const GemmShape &shape : cutShapes(GetParam())) {
    std::vector<float> one = run(shape, 1);
    EXPECT_EQ(one, run(shape, 2)) << describe(shape);
    EXPECT_EQ(one, run(shape, 3)) << describe(shape);
  }
}

INSTANTIATE_TEST_SUITE_P(Libraries, Products,
                         testing::Values(GemmLibrary::Sgemm,
                                         GemmLibrary::Matmul));

TEST(Products, NeedScratchThatDoesNotDependOnWhatWasPreparedBefore) {
  std::vector<GemmShape> shapes;
  for (int64_t m : {1, 3, 17})
    for (int64_t n : {1, 3, 17})
      for (int64_t k : {1, 3, 17})
        for (int flags = 0; flags < 4; ++flags)
          for (int64_t more : {0, 1, 12}) {
            bool ta = flags & 1, tb = flags & 2;
            shapes.push_back({GemmLibrary::Matmul, m, n, k, ta, tb,
                              (ta ? m : k) + more, (tb ? k : n) + more,
                              n + more, {}});
          }
  std::vector<uint64_t> alone;
  dnnl::set_primitive_cache_capacity(0);
  for (const GemmShape &shape : shapes)
    alone.push_back(*gemmScratchBytes(shape, 1));
  dnnl::set_primitive_cache_capacity(1024);
  for (size_t i = 0; i < shapes.size(); ++i)
    EXPECT_EQ(*gemmScratchBytes(shapes[i], 1), alone[i]) << describe(shapes[i]);
}

TEST(ThreadTeam, CoversARangeOnceInPiecesOfTheGrain) {
  ThreadTeam team(2, true);
  for (int64_t range : {0, 1, 7, 64, 1000})
    for (int64_t grain : {1, 3, 64}) {
      std::vector<std::atomic<int>> visits(range);
      team.parallelFor(range, grain, [&](int64_t begin, int64_t end) {
        EXPECT_EQ(begin % grain, 0);
        EXPECT_TRUE(end % grain == 0 || end == range);
        for (int64_t i = begin; i < end; ++i)
          ++visits[i];
      });
      for (auto &count : visits)
        EXPECT_EQ(count, 1);
    }
}

TEST(ThreadTeam, FlushesDenormalsOnEachThread) {
  ThreadTeam team(2, true);
  team.parallelFor(2, 1, [](int64_t begin, int64_t end) {
    volatile float tiny = 1e-38f;
    for (int64_t i = begin; i < end; ++i)
      EXPECT_EQ(tiny * 0.01f, 0.0f);
  });
  ThreadTeam keeping(2, false);
  keeping.parallelFor(2, 1, [](int64_t begin, int64_t end) {
    volatile float tiny = 1e-38f;
    for (int64_t i = begin; i < end; ++i)
      EXPECT_NE(tiny * 0.01f, 0.0f);
  });
}

TEST(Kernels, AreLoadedFromTheirImageAndRun) {
  plan::PlanT plan = linearPlan({});
  std::vector<uint8_t> bytes = serialise(plan);
  auto module = KernelModule::load(*plan::GetPlan(bytes.data())->kernels());
  ASSERT_TRUE(module) << module.error().message;
  float a[] = {5, 6, 7}, b[] = {1, 2, 3}, out[] = {0, 0, 0};
  void *buffers[] = {a, b, out};
  module->function(0)(buffers, 1, 3);
  EXPECT_EQ(out[0], 0);
  EXPECT_EQ(out[2], 4);
}

std::string refusalOf(plan::PlanT &plan) {
  std::vector<uint8_t> bytes = serialise(plan);
  auto module = KernelModule::load(*plan::GetPlan(bytes.data())->kernels());
  return module ? "" : module.error().message;
}

TEST(Kernels, AreRefusedWhereTheCpuLacksAFeature) {
  plan::PlanT plan = linearPlan({});
  plan.kernels->features = {"+sse2", "+avx9000", "-avx512f"};
  EXPECT_NE(refusalOf(plan).find("need +avx9000"), std::string::npos)
      << refusalOf(plan);
}

TEST(Kernels, AreRefusedWhereASymbolIsMissing) {
  plan::PlanT plan = linearPlan({});
  plan.kernels->symbols.push_back("missing_kernel");
  EXPECT_NE(refusalOf(plan).find("missing_kernel"), std::string::npos);
}

std::string refusalOfImage(const std::string &path) {
  std::string image = readFile(path);
  auto checked = checkKernelImage(
      {reinterpret_cast<const uint8_t *>(image.data()), image.size()});
  return checked ? "" : checked.error().message;
}

TEST(KernelImage, IsRefusedForEachThingThatItMayNotHave) {
  for (auto [image, reason] : {std::pair("needed", "DT_NEEDED"),
                               {"constructor", "constructor"},
                               {"destructor", "destructor"},
                               {"resolver", "resolver"},
                               {"symbol", "'system'"},
                               {"tls", "thread-local"}}) {
    std::string message = refusalOfImage(std::string(POLYRANK_REFUSED_IMAGES) +
                                         "/refused-" + image + ".so");
    EXPECT_NE(message.find(reason), std::string::npos) << image << ": "
                                                       << message;
  }
}

// The loader maps the later of two segments over the earlier one: what was
// checked would not be what runs.
TEST(KernelImage, IsRefusedWhereSegmentsOverlap) {
  std::vector<uint8_t> image = testKernels();
  Elf64_Ehdr header;
  std::memcpy(&header, image.data(), sizeof(header));
  std::vector<size_t> loads;
  for (int number = 0; number < header.e_phnum; ++number) {
    Elf64_Phdr segment;
    size_t at = header.e_phoff + number * sizeof(segment);
    std::memcpy(&segment, image.data() + at, sizeof(segment));
    if (segment.p_type == PT_LOAD)
      loads.push_back(at);
  }
  ASSERT_GE(loads.size(), 2u);
  std::memcpy(image.data() + loads[1], image.data() + loads[0],
              sizeof(Elf64_Phdr));
  auto checked = checkKernelImage(image);
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().message.find("overlap"), std::string::npos)
      << checked.error().message;
}

TEST(KernelImage, SurvivesEveryDamagedByte) {
  std::vector<uint8_t> good = testKernels();
  EXPECT_TRUE(checkKernelImage(good));
  for (size_t i = 0; i < good.size(); ++i)
    for (uint8_t flip : {0x01, 0x80, 0xff}) {
      std::vector<uint8_t> image = good;
      image[i] ^= flip;
      (void)checkKernelImage(image);
    }
  for (size_t size = 0; size < good.size(); size += 5)
    (void)checkKernelImage({good.data(), size});
}

TEST(CpuFeatures, AreKnownByTheNamesOfLlvm) {
  EXPECT_TRUE(cpuHas("+sse2"));
  EXPECT_TRUE(cpuHas("sse4.2"));
  EXPECT_TRUE(cpuHas("sse3"));
  EXPECT_FALSE(cpuHas("avx9000"));
}

} // namespace
} // namespace polyrank::runtime::test
