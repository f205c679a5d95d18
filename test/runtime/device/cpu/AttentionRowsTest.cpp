// Rows of attention have the same bits with all vector instructions, and touch
// nothing behind what they read.

#include "runtime/device/cpu/AttentionRows.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <vector>

namespace polyrank::runtime::test {
namespace {

std::vector<const AttentionRows *> tables() {
  std::vector<const AttentionRows *> result{&attentionRowsBase};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    result.push_back(&attentionRowsAvx2);
  if (&attentionRows() == &attentionRowsAvx512)
    result.push_back(&attentionRowsAvx512);
  return result;
}

struct alignas(64) Floats {
  float values[512];
};

Floats floats(float factor) {
  Floats result;
  for (int i = 0; i < 512; ++i)
    result.values[i] = factor * std::sin(static_cast<float>(i * i));
  return result;
}

/// What all functions make of one row.
std::vector<float> computeAll(const AttentionRows &rows, const RowKeys &keys,
                              const ScoreRules &rules,
                              const RowDropout *dropout) {
  Floats row = floats(20), gradients = floats(3), bias = floats(0);
  std::vector<float> result;
  result.push_back(rows.toScores(row.values, keys, rules));
  result.insert(result.end(), row.values, row.values + keys.count);
  result.push_back(rows.toWeights(row.values, keys, rules, result[0], dropout));
  result.insert(result.end(), row.values, row.values + keys.count);
  row = floats(20);
  for (bool hasOneBias : {false, true}) {
    row = floats(20), gradients = floats(3);
    rows.toSlopes(row.values, gradients.values, keys, rules,
                  {21, 0.75, 0.5, bias.values, hasOneBias}, dropout);
    result.insert(result.end(), row.values, row.values + keys.count);
    result.insert(result.end(), gradients.values,
                  gradients.values + keys.count);
    result.insert(result.end(), bias.values, bias.values + keys.count);
  }
  rows.scale(row.values, keys.count, 0.3f);
  result.insert(result.end(), row.values, row.values + keys.count);
  result.push_back(rows.dot(row.values, gradients.values, keys.count));
  result.push_back(rows.largest(row.values, keys.count));
  return result;
}

TEST(AttentionRows, HaveTheSameBitsWithAllInstructions) {
  RowDropout dropout{123456789012345,
                     (uint64_t(1) << 32) - 7,
                     5,
                     6,
                     uint64_t(0.3 * 0x1p32),
                     0.7f};
  for (int64_t count : {1, 15, 16, 17, 100, 511})
    for (MaskedScores masked :
         {MaskedScores::Zero, MaskedScores::Add, MaskedScores::Replace})
      for (int kind = 0; kind < 8; ++kind) {
        // The ends of these vectors are those of what may be read.
        std::vector<float> bias(count, 0.5f);
        std::vector<uint8_t> mask(count, 1);
        mask[count / 2] = 0;
        RowKeys keys{count, count / 3, count - count / 4};
        ScoreRules rules{kind & 1 ? 5.f : 0.f, masked, -3};
        if (kind & 2)
          keys.bias = bias.data(), keys.mask = mask.data();
        std::vector<float> expected;
        for (const AttentionRows *rows : tables()) {
          std::vector<float> actual =
              computeAll(*rows, keys, rules, kind & 4 ? &dropout : nullptr);
          if (expected.empty())
            expected = actual;
          ASSERT_EQ(std::memcmp(actual.data(), expected.data(),
                                actual.size() * sizeof(float)),
                    0);
        }
      }
}

TEST(AttentionRows, TakeTheExponentialWithinOneUlp) {
  ScoreRules rules;
  for (int step = 0; step < 20000; ++step) {
    Floats row;
    for (int i = 0; i < 16; ++i)
      row.values[i] = -103.0f * static_cast<float>(step * 16 + i) / 320000;
    std::vector<float> before(row.values, row.values + 16);
    attentionRows().toWeights(row.values, {16, 0, 16}, rules, 0, nullptr);
    for (int i = 0; i < 16; ++i) {
      float expected = static_cast<float>(std::exp(double(before[i])));
      ASSERT_LE(std::abs(row.values[i] - expected),
                std::nextafter(expected, 1.f) - expected)
          << before[i];
    }
  }
}

TEST(AttentionRows, GiveTheLargestValueUnlessOneIsNoNumber) {
  float values[] = {1, 3, 2};
  EXPECT_EQ(attentionRows().largest(values, 3), 3);
  values[0] = NAN;
  EXPECT_TRUE(std::isnan(attentionRows().largest(values, 3)));
  EXPECT_EQ(attentionRows().largest(values, 0), -INFINITY);
}

} // namespace
} // namespace polyrank::runtime::test
