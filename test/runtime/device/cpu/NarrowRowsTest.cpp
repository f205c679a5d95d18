// Conversions of narrow rows have the bits of support/Float16.h with all vector
// instructions, and touch nothing behind what they convert.

#include "runtime/device/cpu/NarrowRows.h"

#include "support/Float16.h"

#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <immintrin.h>
#include <vector>

namespace polyrank::runtime::test {
namespace {

struct Level {
  const char *name;
  const NarrowRows &rows;
  bool isHere;
};

std::vector<Level> levels() {
  bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
  return {{"base", narrowRowsBase, true},
          {"avx2", narrowRowsAvx2, avx2},
          {"avx512", narrowRowsAvx512,
           avx2 && __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl")}};
}

std::vector<uint16_t> allNarrow() {
  std::vector<uint16_t> bits;
  for (uint32_t each = 0; each < 0x10000; ++each)
    bits.push_back(static_cast<uint16_t>(each));
  return bits;
}

/// Each upper half with lower halves next to the ties of both types.
std::vector<float> manyFloats() {
  std::vector<float> values;
  for (uint32_t upper = 0; upper < 0x10000; ++upper)
    for (uint32_t lower : {0x0000, 0x0001, 0x0fff, 0x1000, 0x1001, 0x2fff,
                           0x3000, 0x7fff, 0x8000, 0x8001, 0xffff})
      values.push_back(std::bit_cast<float>(upper << 16 | lower));
  return values;
}

void expectWidened(const Level &level, ElementType type,
                   float (*expected)(uint16_t)) {
  std::vector<uint16_t> from = allNarrow();
  std::vector<float> to(from.size());
  level.rows.widen(type, from.data(), to.data(), to.size());
  for (size_t i = 0; i < from.size(); ++i) {
    uint32_t is = std::bit_cast<uint32_t>(to[i]),
             wanted = std::bit_cast<uint32_t>(expected(from[i]));
    // A NaN may become quiet.
    if ((wanted & 0x7fffffff) > 0x7f800000)
      wanted |= 0x400000, is |= 0x400000;
    ASSERT_EQ(is, wanted) << level.name << " " << nameOf(type) << " " << i;
  }
}

void expectRounded(const Level &level, ElementType type,
                   uint16_t (*expected)(float)) {
  std::vector<float> from = manyFloats();
  std::vector<uint16_t> to(from.size());
  level.rows.round(type, from.data(), to.data(), to.size());
  for (size_t i = 0; i < from.size(); ++i)
    ASSERT_EQ(to[i], expected(from[i]))
        << level.name << " " << nameOf(type) << " "
        << std::bit_cast<uint32_t>(from[i]);
}

void expectBits() {
  for (const Level &level : levels()) {
    if (!level.isHere)
      continue;
    expectWidened(level, ElementType::BF16, floatFromBFloat16);
    expectWidened(level, ElementType::F16, floatFromFloat16);
    expectRounded(level, ElementType::BF16, bfloat16FromFloat);
    expectRounded(level, ElementType::F16, float16FromFloat);
  }
}

TEST(NarrowRows, HaveTheBitsOfTheScalarConversions) { expectBits(); }

// The denormal numbers of f16 are normal ones of f32, and those of bf16 are
// converted as they are.
TEST(NarrowRows, HaveTheSameBitsWhereDenormalsAreFlushed) {
  unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);
  expectBits();
  _mm_setcsr(before);
}

TEST(NarrowRows, StayWithinTheirElements) {
  for (const Level &level : levels())
    for (ElementType type : {ElementType::BF16, ElementType::F16})
      for (int64_t count = 0; level.isHere && count < 40; ++count) {
        std::vector<uint16_t> narrow(count + 1, 0x3c00);
        std::vector<float> wide(count + 1, 7);
        level.rows.widen(type, narrow.data(), wide.data(), count);
        EXPECT_EQ(wide[count], 7) << level.name << " " << count;
        narrow[count] = 0x1234;
        level.rows.round(type, wide.data(), narrow.data(), count);
        EXPECT_EQ(narrow[count], 0x1234) << level.name << " " << count;
      }
}

} // namespace
} // namespace polyrank::runtime::test
