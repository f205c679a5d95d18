// The CPU device: GEMMs against a plain loop, bits that do not depend on the
// threads, kernels that are loaded and those that are refused.

#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/device/DeviceAccess.h"
#include "runtime/device/cpu/Attention.h"
#include "runtime/device/cpu/CpuFeatures.h"
#include "runtime/device/cpu/OneDnn.h"
#include "test/runtime/AttentionPlan.h"
#include "test/runtime/PlanBuilder.h"
#include "test/runtime/PlanParts.h"
#include "test/runtime/device/cpu/GemmShapes.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <numeric>
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
  auto done = (*prepared)->run(
      {operands.a.data(), operands.b.data(), operands.c.data(), scratch});
  EXPECT_TRUE(done) << done.error().message;
  return operands.c;
}

/// Shapes with various numbers of pieces.
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

//===-- groups -----------------------------------------------------------===//

std::vector<float> runGrouped(const GemmShape &shape, const Groups &groups,
                              int threads) {
  omp_set_num_threads(threads);
  Operands operands = operandsFor(shape);
  auto prepared = prepareGemm(shape, threads);
  EXPECT_TRUE(prepared) << prepared.error().message;
  EXPECT_EQ((*prepared)->scratchBytes(), *gemmScratchBytes(shape, threads));
  // It writes only within the scratch that it asked for.
  constexpr size_t guard = 64;
  std::vector<std::byte> memory((*prepared)->scratchBytes() + 2 * guard,
                                std::byte(7));
  auto address = reinterpret_cast<uintptr_t>(memory.data());
  auto *scratch = reinterpret_cast<std::byte *>((address + 63) / 64 * 64);
  auto done =
      (*prepared)->run({operands.a.data(), operands.b.data(), operands.c.data(),
                        scratch, groups.groups.data(), groups.ids.data()});
  EXPECT_TRUE(done) << done.error().message;
  for (std::byte *after = scratch + (*prepared)->scratchBytes();
       after < memory.data() + memory.size(); ++after)
    EXPECT_EQ(*after, std::byte(7));
  return operands.c;
}

/// Computes a grouped GEMM by its definition, in double precision.
std::vector<float> defineGrouped(const GemmShape &shape, const Groups &groups) {
  Operands operands = operandsFor(shape);
  std::vector<double> c(operands.c.begin(), operands.c.end());
  const GemmBatchDim &batch = shape.batch.front();
  bool ofRows = shape.grouped == GemmGroups::Rows;
  for (int64_t e = 0; e < (ofRows ? 1 : batch.count); ++e)
    for (int64_t i = 0; i < shape.m; ++i)
      for (int64_t j = 0; j < shape.n; ++j)
        c[e * batch.cStride + i * shape.ldc + j] *= shape.beta;
  for (int64_t e = 0; e < batch.count; ++e)
    for (int64_t i = 0; i < shape.m; ++i)
      for (int64_t l = 0; l < shape.k; ++l)
        for (int64_t j = 0; j < shape.n; ++j)
          if (groups.groups[ofRows ? i : l] == groups.ids[e])
            c[e * batch.cStride + i * shape.ldc + j] +=
                shape.alpha *
                double(operands.a[e * batch.aStride +
                                  (shape.transposeA ? l * shape.lda + i
                                                    : i * shape.lda + l)]) *
                operands.b[e * batch.bStride + (shape.transposeB
                                                    ? j * shape.ldb + l
                                                    : l * shape.ldb + j)];
  return {c.begin(), c.end()};
}

TEST(GroupedProducts, AreThoseOfTheirDefinition) {
  for (const GemmShape &shape : groupedShapes())
    for (const Groups &groups :
         groupsOf(shape.grouped == GemmGroups::Rows ? shape.m : shape.k)) {
      std::vector<float> expected = defineGrouped(shape, groups),
                         got = runGrouped(shape, groups, 2);
      float tolerance = 1e-5f * std::sqrt(static_cast<float>(shape.k)) * 8;
      // The gaps between rows are unchanged.
      for (size_t i = 0; i < got.size(); ++i)
        ASSERT_NEAR(got[i], expected[i], tolerance)
            << describe(shape) << " element " << i;
    }
}

TEST(GroupedProducts, HaveTheSameBitsOnAnyNumberOfThreads) {
  for (const GemmShape &shape : groupedShapes())
    for (const Groups &groups :
         groupsOf(shape.grouped == GemmGroups::Rows ? shape.m : shape.k)) {
      std::vector<float> one = runGrouped(shape, groups, 1);
      EXPECT_EQ(one, runGrouped(shape, groups, 2)) << describe(shape);
      EXPECT_EQ(one, runGrouped(shape, groups, 3)) << describe(shape);
    }
}

TEST(GroupedProducts, AreNotComputedByTheMatmulPrimitive) {
  GemmShape shape = groupedShapes().front();
  shape.library = GemmLibrary::Matmul;
  auto prepared = prepareGemm(shape, 1);
  ASSERT_FALSE(prepared);
  EXPECT_NE(prepared.error().message.find("computed by sgemm"),
            std::string::npos)
      << prepared.error().message;
}

TEST(Products, NeedScratchThatDoesNotDependOnWhatWasPreparedBefore) {
  std::vector<GemmShape> shapes;
  for (int64_t m : {1, 3, 17})
    for (int64_t n : {1, 3, 17})
      for (int64_t k : {1, 3, 17})
        for (int flags = 0; flags < 4; ++flags)
          for (int64_t more : {0, 1, 12}) {
            bool ta = flags & 1, tb = flags & 2;
            shapes.push_back({GemmLibrary::Matmul,
                              m,
                              n,
                              k,
                              ta,
                              tb,
                              (ta ? m : k) + more,
                              (tb ? k : n) + more,
                              n + more,
                              {}});
          }
  std::vector<uint64_t> alone;
  ASSERT_TRUE(loadOneDnn());
  dnnl::set_primitive_cache_capacity(0);
  for (const GemmShape &shape : shapes)
    alone.push_back(*gemmScratchBytes(shape, 1));
  dnnl::set_primitive_cache_capacity(1024);
  for (size_t i = 0; i < shapes.size(); ++i)
    EXPECT_EQ(*gemmScratchBytes(shapes[i], 1), alone[i]) << describe(shapes[i]);
}

TEST(Kernels, AreLoadedFromTheirImageAndRun) {
  plan::PlanT plan = linearPlan({});
  std::vector<uint8_t> bytes = serialise(plan);
  auto module =
      KernelModule::load(*plan::GetPlan(bytes.data())->images()->Get(0));
  ASSERT_TRUE(module) << module.error().message;
  float a[] = {5, 6, 7}, b[] = {1, 2, 3}, out[] = {0, 0, 0};
  void *buffers[] = {a, b, out};
  module->function(0)(buffers, 1, 3);
  EXPECT_EQ(out[0], 0);
  EXPECT_EQ(out[2], 4);
}

std::string refusalOf(plan::PlanT &plan) {
  std::vector<uint8_t> bytes = serialise(plan);
  auto module =
      KernelModule::load(*plan::GetPlan(bytes.data())->images()->Get(0));
  return module ? "" : module.error().message;
}

TEST(Kernels, AreRefusedWhereTheCpuLacksAFeature) {
  plan::PlanT plan = linearPlan({});
  plan.images[0]->requirements->features = {"+sse2", "+avx9000", "-avx512f"};
  EXPECT_NE(refusalOf(plan).find("need +avx9000"), std::string::npos)
      << refusalOf(plan);
}

TEST(Kernels, AreRefusedWhereASymbolIsMissing) {
  plan::PlanT plan = linearPlan({});
  plan.images[0]->symbols.push_back("missing_kernel");
  EXPECT_NE(refusalOf(plan).find("missing_kernel"), std::string::npos);
}

/// A command, prepared on a device of two threads over an arena of its own.
class Prepared {
public:
  template <typename Body>
  explicit Prepared(Body body, int64_t index = 0,
                    std::vector<uint64_t> indices = {}) {
    plan::PlanT plan = linearPlan({});
    auto command = std::make_unique<plan::CommandT>();
    command->body.Set(std::move(body));
    plan.programs[0]->segments[0]->commands.clear();
    plan.programs[0]->segments[0]->commands.push_back(std::move(command));
    bytes = serialise(plan);
    const plan::Plan &packed = *plan::GetPlan(bytes.data());
    const plan::Command &source =
        *packed.programs()->Get(0)->segments()->Get(0)->commands()->Get(0);
    device = *CpuDevice::create(*packed.images()->Get(0),
                                std::make_shared<HostTeam>(2, true));
    memory.resize(1 << 18);
    std::iota(memory.begin(), memory.end(), 0.0f);
    ArenaView arena{
        {},
        DeviceAccess::spanOf(std::as_writable_bytes(std::span(memory))),
        indices};
    auto prepared = source.body_as_Copy()
                        ? device->prepare(*source.body_as_Copy(), index, arena)
                    : source.body_as_Call()
                        ? device->prepare(*source.body_as_Call(), arena)
                        : device->prepare(*source.body_as_Launch(), arena);
    if (prepared)
      operation = *std::move(prepared);
    else
      refusal = prepared.error().message;
  }

  std::vector<float> memory; // the private region: 0, 1, 2 ...
  std::unique_ptr<Operation> operation;
  std::string refusal;

private:
  std::vector<uint8_t> bytes;
  std::unique_ptr<CpuDevice> device;
};

std::unique_ptr<plan::BufferRef> floatsAt(uint64_t first, uint64_t count,
                                          uint64_t stride = 0,
                                          uint32_t slots = 0) {
  return std::make_unique<plan::BufferRef>(4 * first, 4 * count, 4 * stride, 0,
                                           0, slots, 0, plan::Region::Private);
}

TEST(Commands, ACopyTakesThisRanksPartOfItsMicrobatch) {
  constexpr int64_t to = 1 << 17, next = 1 << 15;
  for (auto [outer, count, inner] :
       {std::tuple<int64_t, int64_t, int64_t>(3, 4, 5),
        {1, 2, 7},
        {1, 1, 1},
        {1, 1, 15},
        {2, 1, 8},
        {3, 1, 37},
        {1, 1, 20003},
        {101, 3, 99}})
    for (int64_t index = 0; index < count; ++index)
      for (uint32_t microbatch : {0, 1}) {
        plan::CopyT copy;
        copy.element = 4;
        copy.outer = outer, copy.count = count, copy.inner = inner;
        copy.input = floatsAt(0, outer * count * inner, next);
        copy.output = floatsAt(to, outer * inner, next);
        Prepared prepared(std::move(copy), index);
        ASSERT_TRUE(prepared.operation) << prepared.refusal;
        ASSERT_TRUE(prepared.operation->run({microbatch}));
        std::vector<float> expected(prepared.memory.size());
        std::iota(expected.begin(), expected.end(), 0.0f);
        for (int64_t o = 0; o < outer; ++o)
          for (int64_t i = 0; i < inner; ++i)
            expected[to + next * microbatch + o * inner + i] =
                static_cast<float>(next * microbatch +
                                   (o * count + index) * inner + i);
        EXPECT_EQ(prepared.memory, expected)
            << outer << " x " << count << " x " << inner << ", part " << index
            << ", microbatch " << microbatch;
      }
}

TEST(Commands, ALaunchWorksOnItsMicrobatchAndOnThisRanksBlock) {
  constexpr int64_t a = 0, b = 1 << 16, out = 1 << 17, next = 25000;
  for (int64_t range : {5, 20003}) {
    plan::LaunchT launch;
    launch.kernel = 0; // difference
    launch.body.Set(cpuLaunch(range, 16));
    launch.inputs = {*floatsAt(a, range, next), *floatsAt(b, range)};
    launch.outputs = {plan::BufferRef(4 * out, 4 * range, 0, 4 * next, 0, 0, 2,
                                      plan::Region::Private)};
    Prepared prepared(std::move(launch), 0, {0, 2}); // third block of group 1
    ASSERT_TRUE(prepared.operation) << prepared.refusal;
    ASSERT_TRUE(prepared.operation->run({1}));
    std::vector<float> expected(prepared.memory.size());
    std::iota(expected.begin(), expected.end(), 0.0f);
    for (int64_t i = 0; i < range; ++i)
      expected[out + 2 * next + i] = static_cast<float>(a + next - b);
    EXPECT_EQ(prepared.memory, expected) << range;
  }
}

TEST(Commands, ALaunchFindsTheSlotOfItsMicrobatch) {
  constexpr int64_t a = 0, b = 1 << 16, out = 1 << 17, next = 25000, range = 5;
  for (uint32_t microbatch : {0, 1, 2, 5}) {
    plan::LaunchT launch;
    launch.kernel = 0; // difference
    launch.body.Set(cpuLaunch(range, 16));
    launch.inputs = {*floatsAt(a, range, next, 2), *floatsAt(b, range)};
    launch.outputs = {*floatsAt(out, range, 0)};
    Prepared prepared(std::move(launch));
    ASSERT_TRUE(prepared.operation) << prepared.refusal;
    ASSERT_TRUE(prepared.operation->run({microbatch}));
    EXPECT_EQ(prepared.memory[out],
              static_cast<float>(a + microbatch % 2 * next - b))
        << microbatch;
  }
}

TEST(Commands, ALaunchMovesOnInEachIterationOfItsLoop) {
  constexpr int64_t a = 0, b = 1 << 16, out = 1 << 17, each = 100, range = 5;
  plan::LaunchT launch;
  launch.kernel = 0; // difference
  launch.body.Set(cpuLaunch(range, 16));
  launch.inputs = {plan::BufferRef(4 * a, 4 * range, 0, 0, 4 * each, 0, 0,
                                   plan::Region::Private),
                   *floatsAt(b, range)};
  launch.outputs = {*floatsAt(out, range)};
  Prepared prepared(std::move(launch));
  ASSERT_TRUE(prepared.operation) << prepared.refusal;
  for (uint32_t iteration : {0, 3, 1}) {
    ASSERT_TRUE(prepared.operation->run({0, iteration}));
    EXPECT_EQ(prepared.memory[out],
              static_cast<float>(a + iteration * each - b))
        << iteration;
  }
}

TEST(Commands, AGemmWorksOnItsMicrobatch) {
  plan::CpuGemmT gemm = gemmOf(1, 1, 1);
  gemm.alpha = 2, gemm.beta = 3;
  Prepared prepared(call(gemm, *floatsAt(10, 1, 5), *floatsAt(100, 1, 7),
                         *floatsAt(1000, 1, 9)));
  ASSERT_TRUE(prepared.operation) << prepared.refusal;
  ASSERT_TRUE(prepared.operation->run({2}));
  EXPECT_EQ(prepared.memory[1018], 2 * 20 * 114 + 3 * 1018);
}

TEST(Commands, AGemmIsRefusedWhereItsScratchIsTooSmall) {
  // A GEMM whose library needs scratch.
  GemmShape shape = shapeFrom(64, 48, 64, true, true, 0);
  shape.library = GemmLibrary::Matmul;
  uint64_t needed = *gemmScratchBytes(shape, 2);
  for (uint64_t given : {needed, needed - 64}) {
    if (needed == 0)
      GTEST_SKIP() << "oneDNN needs no scratch on this machine";
    plan::CpuGemmT gemm = gemmOf(64, 48, 64, /*transposeA=*/true);
    gemm.implementation = plan::GemmImplementation::Matmul;
    gemm.transpose_b = true;
    gemm.ldb = 64;
    plan::CallT product = call(gemm, *floatsAt(0, 4096), *floatsAt(4096, 4096),
                               *floatsAt(8192, 4096));
    product.scratch = floatsAt(16384, given / 4);
    Prepared prepared(std::move(product));
    EXPECT_EQ(prepared.refusal.empty(), given == needed) << prepared.refusal;
    if (given != needed)
      EXPECT_NE(prepared.refusal.find("compile again on this machine"),
                std::string::npos);
  }
}

TEST(Commands, AGemmOfOtherElementsIsRefusedByTheirName) {
  using plan::ElementType;
  for (auto [type, types] :
       {std::pair(&plan::CpuGemmT::operands, "f64 that is added in f32 and "
                                             "gives f32"),
        {&plan::CpuGemmT::accumulator,
         "f32 that is added in f64 and gives f32"},
        {&plan::CpuGemmT::result, "f32 that is added in f32 and gives f64"}}) {
    plan::CpuGemmT gemm = gemmOf(1, 1, 1);
    gemm.*type = ElementType::F64;
    Prepared prepared(
        call(gemm, *floatsAt(0, 2), *floatsAt(2, 2), *floatsAt(4, 2)));
    EXPECT_NE(prepared.refusal.find(
                  std::string("(sgemm): the CPU has no product of ") + types),
              std::string::npos)
        << prepared.refusal;
  }
}

TEST(Commands, AGemmOfNarrowElementsWorksOnItsMicrobatch) {
  // A small integer as a float is zero and then the integer, as bf16.
  for (auto implementation :
       {plan::GemmImplementation::Widened, plan::GemmImplementation::Matmul}) {
    plan::CpuGemmT gemm = gemmOf(1, 1, 2);
    gemm.alpha = 2, gemm.beta = 3;
    gemm.implementation = implementation;
    gemm.operands = plan::ElementType::BF16;
    if (implementation == plan::GemmImplementation::Matmul &&
        !hasNarrowMatmul(polyrank::ElementType::BF16,
                         polyrank::ElementType::F32))
      continue;
    plan::CallT product = call(gemm, *floatsAt(10, 1, 5), *floatsAt(100, 1, 7),
                               *floatsAt(1000, 1, 9));
    product.scratch = floatsAt(16384, 4096);
    Prepared prepared(std::move(product));
    ASSERT_TRUE(prepared.operation) << prepared.refusal;
    ASSERT_TRUE(prepared.operation->run({2}));
    EXPECT_EQ(prepared.memory[1018], 2 * 20 * 114 + 3 * 1018);
  }
}

TEST(Rates, AreMeasuredOfTheElementsThatAreAskedFor) {
  std::vector<uint8_t> bytes = serialise(linearPlan({}));
  auto device =
      *CpuDevice::create(*plan::GetPlan(bytes.data())->images()->Get(0),
                         std::make_shared<HostTeam>(1, true));
  polyrank::ElementType narrow[] = {polyrank::ElementType::BF16};
  auto rates = measureRates(*device, narrow);
  ASSERT_TRUE(rates) << rates.error().message;
  EXPECT_GT(rates->flopsPerSecond, 1e8);
  EXPECT_GT(rates->bytesPerSecond, 1e7);
  EXPECT_EQ(rates->narrow.size(), 1u);
  EXPECT_GT(rates->flopsOf(polyrank::ElementType::BF16), 1e8);
  EXPECT_EQ(rates->flopsOf(polyrank::ElementType::F16), rates->flopsPerSecond);
}

/// Attention with all options over buffers whose contents are small numbers.
Prepared preparedAttention(AttentionOptions options, Arena &arena) {
  Prepared prepared(attentionCall(arena, options));
  for (size_t i = 0; i < prepared.memory.size(); ++i)
    prepared.memory[i] = static_cast<float>(i * 7 % 17) / 16;
  return prepared;
}

/// Elements that are read as they are, and some that are converted.
class AttentionOf : public testing::TestWithParam<
                        std::pair<plan::ElementType, plan::TileProducts>> {
protected:
  void choose(AttentionOptions &options) const {
    std::tie(options.type, options.products) = GetParam();
  }
  void choose(AttentionShape &shape) const {
    shape.type = static_cast<polyrank::ElementType>(GetParam().first);
    shape.products =
        static_cast<polyrank::runtime::TileProducts>(GetParam().second);
  }
  size_t bytes(size_t elements) const {
    return elements * elementSize(GetParam().first);
  }
};
INSTANTIATE_TEST_SUITE_P(
    Commands, AttentionOf,
    testing::Values(
        std::pair(plan::ElementType::F32, plan::TileProducts::Float32),
        std::pair(plan::ElementType::BF16, plan::TileProducts::Widened)),
    [](const auto &info) {
      return std::string(plan::EnumNameElementType(info.param.first));
    });

// The call finds each of its buffers: its results are those of the function,
// which AttentionTest compares with the definition.
TEST_P(AttentionOf, TakesItsBuffersInTheirOrder) {
  Arena arena;
  AttentionOptions options{false, true, true, true, true, false};
  choose(options);
  plan::CallT call = attentionCall(arena, options);
  Arena again;
  Prepared prepared = preparedAttention(options, again);
  ASSERT_TRUE(prepared.operation) << prepared.refusal;
  auto at = [&](const plan::BufferRef &buffer) {
    return &prepared.memory[buffer.offset() / 4];
  };
  // Counters are whole numbers.
  for (size_t i = 5; i < 12; ++i) {
    int64_t number = static_cast<int64_t>(i);
    std::memcpy(at(call.reads[i]), &number, sizeof(number));
  }
  ASSERT_TRUE(prepared.operation->run({0}));
  AttentionShape shape;
  shape.batch = 2, shape.heads = 4, shape.groups = 2;
  shape.queries = 3, shape.keys = 5, shape.width = 8, shape.valueWidth = 6;
  shape.query = {96, 8, 32}, shape.key = {80, 8, 16};
  shape.value = {60, 6, 12}, shape.result = {72, 6, 24};
  shape.bias = {0, 15, 5, 1}, shape.mask = {5, 0, 0, 1};
  shape.scale = 0.5, shape.causal = true;
  shape.dropout = {0.25, 3, {60, 15, 5, 1}};
  shape.blockQueries = 16, shape.blockKeys = 32;
  choose(shape);
  std::vector<float> result(144), lse(24);
  std::vector<std::byte> scratch(attentionScratchBytes(shape, 1) + 64);
  int64_t seed = 5, step = 6, microbatch = 7;
  std::array<int64_t, 4> offsets{8, 9, 10, 11};
  AttentionCounters counters{
      &seed,
      &step,
      &microbatch,
      {&offsets[0], &offsets[1], &offsets[2], &offsets[3]}};
  void *aligned = reinterpret_cast<void *>(
      (reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64);
  ASSERT_TRUE(runAttention(
      shape,
      {at(call.reads[0]), at(call.reads[1]), at(call.reads[2]),
       at(call.reads[3]), reinterpret_cast<const uint8_t *>(at(call.reads[4])),
       counters, result.data(), lse.data(), aligned},
      1));
  EXPECT_EQ(
      std::memcmp(at(call.writes[0]), result.data(), bytes(result.size())), 0);
  EXPECT_EQ(std::memcmp(at(call.writes[1]), lse.data(), 4 * lse.size()), 0);
}

TEST_P(AttentionOf, TakesTheBuffersOfItsGradientInTheirOrder) {
  AttentionOptions options{true, true, true, false, false, true};
  choose(options);
  Arena arena, again;
  plan::CallT call = attentionCall(arena, options);
  Prepared prepared = preparedAttention(options, again);
  ASSERT_TRUE(prepared.operation) << prepared.refusal;
  auto at = [&](const plan::BufferRef &buffer) {
    return &prepared.memory[buffer.offset() / 4];
  };
  ASSERT_TRUE(prepared.operation->run({0}));
  AttentionGradShape whole;
  AttentionShape &shape = whole.forward;
  shape.batch = 2, shape.heads = 4, shape.groups = 2;
  shape.queries = 3, shape.keys = 5, shape.width = 8, shape.valueWidth = 6;
  shape.query = whole.queryGradient = {96, 8, 32};
  shape.key = whole.keyGradient = {80, 8, 16};
  shape.value = whole.valueGradient = {60, 6, 12};
  shape.result = whole.resultGradient = {72, 6, 24};
  shape.bias = whole.biasGradient = {0, 15, 5, 1};
  shape.mask = {5, 0, 0, 1};
  shape.scale = 0.5, shape.causal = true;
  shape.blockQueries = 16, shape.blockKeys = 32;
  choose(shape);
  std::vector<std::byte> scratch(attentionScratchBytes(whole, 1) + 64);
  void *aligned = reinterpret_cast<void *>(
      (reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64);
  std::vector<float> query(192), key(160), value(120), bias(60);
  ASSERT_TRUE(
      runAttentionGrad(whole,
                       {at(call.reads[0]),
                        at(call.reads[1]),
                        at(call.reads[2]),
                        at(call.reads[3]),
                        at(call.reads[4]),
                        at(call.reads[5]),
                        at(call.reads[6]),
                        reinterpret_cast<const uint8_t *>(at(call.reads[7])),
                        {},
                        query.data(),
                        key.data(),
                        value.data(),
                        bias.data(),
                        aligned},
                       1));
  const std::vector<float> *expected[] = {&query, &key, &value, &bias};
  for (size_t i = 0; i < 4; ++i)
    EXPECT_EQ(std::memcmp(at(call.writes[i]), expected[i]->data(),
                          i < 3 ? bytes(expected[i]->size())
                                : 4 * expected[i]->size()),
              0)
        << i;
}

TEST(CommandsDeathTest, AttentionIsRefusedWhereTheMachineLacksItsProducts) {
  // oneDNN reads the variable once: the process that sets it is a new one.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
        Arena arena;
        AttentionOptions options;
        options.type = plan::ElementType::BF16;
        options.products = plan::TileProducts::BFloat16;
        Prepared prepared(attentionCall(arena, options));
        std::fputs(prepared.refusal.c_str(), stderr);
        std::exit(0);
      },
      testing::ExitedWithCode(0),
      "attention of 2x4 heads, .*: the plan multiplies bfloat16, and this "
      "machine has no such products; compile again on this machine");
}

TEST(Commands, AttentionIsRefusedWhereItsScratchIsTooSmall) {
  for (bool isGrad : {false, true}) {
    Arena arena;
    plan::CallT call = attentionCall(arena, {isGrad});
    call.scratch = floatsAt(1 << 16, 256);
    Prepared prepared(std::move(call));
    EXPECT_NE(prepared.refusal.find(
                  "attention of 2x4 heads, 3 queries, 5 keys of width 8, "
                  "values of width 6, 2 heads of keys: 2 threads need "),
              std::string::npos)
        << prepared.refusal;
    EXPECT_NE(prepared.refusal.find(
                  "bytes of scratch, the plan gives 1024: compile again"),
              std::string::npos)
        << prepared.refusal;
  }
}

TEST(CpuFeatures, AreKnownByTheNamesOfLlvm) {
  EXPECT_TRUE(cpuHas("+sse2"));
  EXPECT_TRUE(cpuHas("sse4.2"));
  EXPECT_TRUE(cpuHas("sse3"));
  EXPECT_FALSE(cpuHas("avx9000"));
}

} // namespace
} // namespace polyrank::runtime::test
