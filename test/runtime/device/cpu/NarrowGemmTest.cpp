// Products of bf16 and f16 against sums in doubles: within the rounding of sums
// in f32 and one rounding of the result; bits that do not depend on the
// threads.

#include "runtime/device/cpu/Gemm.h"
#include "support/ElementValues.h"
#include "test/runtime/device/cpu/GemmShapes.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>

extern "C" void omp_set_num_threads(int threads);

namespace polyrank::runtime::test {
namespace {

/// The elements of a matrix as they are stored.
struct Elements {
  ElementType type;
  std::vector<std::byte> bytes;

  /// Numbers from -2 to 2.
  Elements(ElementType type, int64_t count, unsigned seed)
      : type(type), bytes(count * bytesOf(type)) {
    std::minstd_rand random(seed);
    for (int64_t i = 0; i < count; ++i)
      set(i, static_cast<float>(random() % 0x10000) * 0x1p-14f - 2);
  }
  double at(int64_t i) const {
    return visitElements(type, [&]<typename T>(T) {
      return static_cast<double>(loadElement<T>(bytes.data() + i * sizeof(T)));
    });
  }
  void set(int64_t i, float value) {
    visitElements(type, [&]<typename T>(T) {
      T stored(value);
      std::memcpy(bytes.data() + i * sizeof(T), &stored, sizeof(T));
    });
  }
  int64_t size() const { return bytes.size() / bytesOf(type); }
};

struct Operands {
  Elements a, b, c;
};

int64_t extentOf(const GemmShape &shape, int64_t rows, int64_t columns,
                 int64_t leading, int64_t GemmBatchDim::*stride) {
  int64_t size = (rows - 1) * leading + columns;
  for (const GemmBatchDim &dim : shape.batch)
    size += (dim.count - 1) * (dim.*stride);
  return size;
}

Operands operandsFor(const GemmShape &shape) {
  bool ta = shape.transposeA, tb = shape.transposeB;
  return {
      Elements(shape.operands,
               extentOf(shape, ta ? shape.k : shape.m, ta ? shape.m : shape.k,
                        shape.lda, &GemmBatchDim::aStride),
               1),
      Elements(shape.operands,
               extentOf(shape, tb ? shape.n : shape.k, tb ? shape.k : shape.n,
                        shape.ldb, &GemmBatchDim::bStride),
               2),
      Elements(
          shape.result,
          extentOf(shape, shape.m, shape.n, shape.ldc, &GemmBatchDim::cStride),
          3)};
}

/// The group of each row, or of each element of the inner dim, and the ids of
/// the products; empty for products without groups.
std::vector<std::byte> run(const GemmShape &shape, int threads,
                           const Groups &groups = {}) {
  omp_set_num_threads(threads);
  Operands operands = operandsFor(shape);
  auto prepared = prepareGemm(shape, threads);
  EXPECT_TRUE(prepared) << prepared.error().message;
  if (!prepared)
    return {};
  uint64_t bytes = (*prepared)->scratchBytes();
  EXPECT_EQ(bytes, *gemmScratchBytes(shape, threads));
  std::vector<std::byte> memory(bytes + 128, std::byte(7));
  auto address = reinterpret_cast<uintptr_t>(memory.data());
  auto *scratch = reinterpret_cast<std::byte *>((address + 63) / 64 * 64);
  auto done =
      (*prepared)->run({operands.a.bytes.data(), operands.b.bytes.data(),
                        operands.c.bytes.data(), scratch, groups.groups.data(),
                        groups.ids.data()});
  EXPECT_TRUE(done) << done.error().message;
  for (std::byte *after = scratch + bytes;
       after < memory.data() + memory.size(); ++after)
    EXPECT_EQ(*after, std::byte(7)) << "behind the scratch";
  return std::move(operands.c.bytes);
}

/// The elements of C in exact arithmetic, and the sums of the magnitudes that
/// are added up in them. Elements that no product writes have
/// `isWritten` false.
struct Exact {
  std::vector<double> values, magnitudes;
  std::vector<bool> isWritten;
};

Exact defined(const GemmShape &shape, const Groups &groups = {}) {
  Operands operands = operandsFor(shape);
  auto valuesOf = [](const Elements &elements) {
    std::vector<double> values;
    for (int64_t i = 0; i < elements.size(); ++i)
      values.push_back(elements.at(i));
    return values;
  };
  std::vector<double> a = valuesOf(operands.a), b = valuesOf(operands.b);
  Exact exact{valuesOf(operands.c), {}, {}};
  exact.magnitudes.resize(exact.values.size());
  exact.isWritten.resize(exact.values.size());
  bool ofRows = shape.grouped == GemmGroups::Rows,
       ofInner = shape.grouped == GemmGroups::Inner;
  auto multiply = [&](int64_t product, int64_t atA, int64_t atB, int64_t atC) {
    for (int64_t i = 0; i < shape.m; ++i)
      for (int64_t j = 0; j < shape.n; ++j) {
        int64_t at = atC + i * shape.ldc + j;
        if (!exact.isWritten[at]) {
          exact.values[at] *= shape.beta;
          exact.magnitudes[at] = std::abs(exact.values[at]);
          exact.isWritten[at] = true;
        }
        if (ofRows && groups.groups[i] != groups.ids[product])
          continue;
        double sum = 0, magnitude = 0;
        for (int64_t l = 0; l < shape.k; ++l) {
          if (ofInner && groups.groups[l] != groups.ids[product])
            continue;
          double term = a[atA + (shape.transposeA ? l * shape.lda + i
                                                  : i * shape.lda + l)] *
                        b[atB + (shape.transposeB ? j * shape.ldb + l
                                                  : l * shape.ldb + j)];
          sum += term;
          magnitude += std::abs(term);
        }
        exact.values[at] += shape.alpha * sum;
        exact.magnitudes[at] += std::abs(shape.alpha) * magnitude;
      }
  };
  int64_t products = 1;
  for (const GemmBatchDim &dim : shape.batch)
    products *= dim.count;
  for (int64_t product = 0; product < products; ++product) {
    int64_t atA = 0, atB = 0, atC = 0, rest = product;
    for (size_t d = shape.batch.size(); d-- > 0;) {
      const GemmBatchDim &dim = shape.batch[d];
      int64_t index = rest % dim.count;
      rest /= dim.count;
      atA += index * dim.aStride, atB += index * dim.bStride;
      atC += index * dim.cStride;
    }
    multiply(product, atA, atB, atC);
  }
  return exact;
}

/// Sums of k products in f32 deviate by some sqrt(k) roundings of their
/// magnitude; then the result is rounded once. Gaps keep their bytes.
void expectDefined(const GemmShape &shape, const Groups &groups = {}) {
  Exact exact = defined(shape, groups);
  Elements got = operandsFor(shape).c, before = got;
  got.bytes = run(shape, 2, groups);
  ASSERT_EQ(got.bytes.size(), before.bytes.size());
  double ofSum = 4 * std::sqrt(static_cast<double>(shape.k)) *
                 std::ldexp(1, -rowOf(shape.accumulator).digits);
  double ofResult = shape.result == shape.accumulator
                        ? 0
                        : std::ldexp(1, -rowOf(shape.result).digits);
  double smallest = shape.result == ElementType::F16 ? 0x1p-25 : 0;
  for (int64_t i = 0; i < got.size(); ++i) {
    if (!exact.isWritten[i]) {
      ASSERT_EQ(got.at(i), before.at(i)) << describe(shape) << " gap " << i;
      continue;
    }
    double tolerance = ofSum * exact.magnitudes[i];
    tolerance += ofResult * (std::abs(exact.values[i]) + tolerance) + smallest;
    ASSERT_NEAR(got.at(i), exact.values[i], tolerance)
        << describe(shape) << " element " << i;
  }
}

/// The types of operands and result, and the function that multiplies them.
struct Kind {
  ElementType operands, result;
  GemmLibrary library;

  GemmShape of(GemmShape shape) const {
    shape.operands = operands;
    shape.result = result;
    shape.library = library;
    return shape;
  }
  /// False for the primitive on a machine that does not multiply such elements.
  bool isHere() const {
    return library != GemmLibrary::Matmul || hasNarrowMatmul(operands, result);
  }
};

std::vector<Kind> kinds(std::vector<GemmLibrary> libraries) {
  std::vector<Kind> result;
  for (ElementType operands : {ElementType::BF16, ElementType::F16})
    for (bool isWide : {false, true})
      for (GemmLibrary library : libraries)
        result.push_back(
            {operands, isWide ? ElementType::F32 : operands, library});
  return result;
}

std::string nameOfKind(const testing::TestParamInfo<Kind> &info) {
  return std::string(nameOf(info.param.operands)) + "_to_" +
         nameOf(info.param.result) + "_by_" + nameOf(info.param.library);
}

class NarrowProducts : public testing::TestWithParam<Kind> {
protected:
  void SetUp() override {
    if (!GetParam().isHere())
      GTEST_SKIP() << "this machine has no such product";
  }
  std::vector<GemmShape> cutShapes() const {
    std::vector<GemmShape> result;
    for (GemmShape shape : shapes())
      for (int64_t pieces : {0, 3}) {
        shape.pieces = pieces;
        result.push_back(GetParam().of(shape));
      }
    GemmShape added = GetParam().of(shapeFrom(40, 50, 70, true, false, 3));
    added.beta = -0.5f, added.alpha = 3;
    result.push_back(added);
    return result;
  }
};

TEST_P(NarrowProducts, AreSumsInF32ThatAreRoundedOnce) {
  for (const GemmShape &shape : cutShapes())
    expectDefined(shape);
}

TEST_P(NarrowProducts, HaveTheSameBitsOnAnyNumberOfThreads) {
  for (const GemmShape &shape : cutShapes()) {
    std::vector<std::byte> one = run(shape, 1);
    EXPECT_EQ(one, run(shape, 2)) << describe(shape);
    EXPECT_EQ(one, run(shape, 3)) << describe(shape);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, NarrowProducts,
                         testing::ValuesIn(kinds({GemmLibrary::Widened,
                                                  GemmLibrary::Matmul})),
                         nameOfKind);

class WidenedProducts : public testing::TestWithParam<Kind> {};

// More rows, columns and terms than a block has, and one of each.
TEST_P(WidenedProducts, AreComputedBlockByBlock) {
  for (bool ta : {false, true})
    for (float beta : {0.f, 1.f}) {
      GemmShape shape = GetParam().of(shapeFrom(260, 780, 790, ta, !ta, 1));
      shape.pieces = 1;
      shape.beta = beta;
      expectDefined(shape);
    }
}

// Two products of one group, each with rows of its own, that are wider than a
// block.
TEST_P(WidenedProducts, OfGroupsHaveTheFactorsOfEachProduct) {
  GemmShape shape = GetParam().of(shapeFrom(7, 800, 11, false, false, 0));
  shape.grouped = GemmGroups::Rows;
  shape.batch = {{3, 7 * 11, 800 * 11, 0}};
  shape.pieces = 1;
  expectDefined(shape, {{4, 4, 5, 4, 4, 5, 4}, {4, 5, 4}});
}

TEST_P(WidenedProducts, OfGroupsAreThoseOfTheirDefinition) {
  for (const GemmShape &each : groupedShapes())
    for (const Groups &groups :
         groupsOf(each.grouped == GemmGroups::Rows ? each.m : each.k))
      expectDefined(GetParam().of(each), groups);
}

TEST_P(WidenedProducts, OfGroupsHaveTheSameBitsOnAnyNumberOfThreads) {
  for (const GemmShape &each : groupedShapes()) {
    if (each.m * each.n * each.k < 1 << 16)
      continue; // computed by one thread in any case
    for (const Groups &groups :
         groupsOf(each.grouped == GemmGroups::Rows ? each.m : each.k)) {
      GemmShape shape = GetParam().of(each);
      EXPECT_EQ(run(shape, 1, groups), run(shape, 3, groups))
          << describe(shape);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, WidenedProducts,
                         testing::ValuesIn(kinds({GemmLibrary::Widened})),
                         nameOfKind);

std::string refusalOf(const GemmShape &shape) {
  auto prepared = prepareGemm(shape, 1);
  EXPECT_FALSE(gemmScratchBytes(shape, 1)) << "scratch is refused likewise";
  return prepared ? "" : prepared.error().message;
}

TEST(NarrowProducts, AreOfTheTypesThatTheirFunctionMultiplies) {
  GemmShape shape = shapeFrom(4, 2, 3, false, false, 0);
  shape.library = GemmLibrary::Widened;
  EXPECT_EQ(
      refusalOf(shape),
      "gemm 4x2x3 (widened): only elements that are narrower than f32 can "
      "be widened");
  shape.operands = shape.result = ElementType::BF16;
  shape.library = GemmLibrary::Sgemm;
  EXPECT_EQ(refusalOf(shape), "gemm 4x2x3 bf16 (sgemm): sgemm multiplies f32, "
                              "and the plan has bf16");
  shape.library = GemmLibrary::Widened;
  shape.accumulator = ElementType::F64;
  EXPECT_EQ(refusalOf(shape),
            "gemm 4x2x3 bf16 (widened): the CPU has no product of bf16 that is "
            "added in f64 and gives bf16");
  shape.accumulator = ElementType::F32;
  shape.result = ElementType::F16;
  EXPECT_EQ(refusalOf(shape),
            "gemm 4x2x3 bf16 to f16 (widened): the CPU has no product of bf16 "
            "that is added in f32 and gives f16");
}

TEST(NarrowProducts, OfGroupsAreNotComputedByTheMatmulPrimitive) {
  GemmShape shape = groupedShapes().front();
  shape.operands = ElementType::BF16;
  shape.library = GemmLibrary::Matmul;
  EXPECT_NE(refusalOf(shape).find("computed by widened"), std::string::npos)
      << refusalOf(shape);
}

} // namespace
} // namespace polyrank::runtime::test
