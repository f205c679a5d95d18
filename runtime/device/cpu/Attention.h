// Attention and its gradient in tiles of queries and keys: softmax is taken
// while the keys go by, so nothing of size queries x keys is stored (Dao et
// al., FlashAttention, 2022). Products of f32 are oneDNN's; those of bf16 and
// f16 are chosen by TileProducts.

#pragma once

#include "runtime/device/cpu/AttentionBlocks.h"
#include "runtime/device/cpu/AttentionRows.h"
#include "support/Result.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace polyrank::runtime {

constexpr const char *nameOf(MaskedScores masked) {
  switch (masked) {
  case MaskedScores::Zero:
    return "zero";
  case MaskedScores::Add:
    return "add";
  case MaskedScores::Replace:
    return "replace";
  }
  return "unknown";
}

/// Where the rows of a tensor [batch, heads, sequence, width] are, in elements.
/// The elements of a row are neighbours.
struct RowStrides {
  int64_t batch = 0, head = 0, row = 0;
  bool operator==(const RowStrides &) const = default;
};

/// Where the elements of a tensor [batch, heads, queries, keys] are. The stride
/// of a dim of size 1 is 0; that of keys is 0 or 1.
using ScoreStrides = std::array<int64_t, 4>;

/// Query head h uses head h / (heads / groups) of keys and values. A key is
/// hidden from a query where the mask is false; if `causal`, where
/// key > query + keys - queries; and with a window, where
/// key <= query + keys - queries - window.
///
/// Query, key, value, result and their gradients have elements of `type`; bias,
/// lse and the gradient of the bias are f32. Scores, weights, and all sums of
/// weights and of products are f32 whatever the type is, and each result is
/// rounded once. Products of bf16 round weights and slopes to bf16, as factors.
struct AttentionShape {
  int64_t batch = 1, heads = 1, groups = 1, queries = 1, keys = 1, width = 1,
          valueWidth = 1;
  RowStrides query, key, value, result;
  std::optional<ScoreStrides> bias; // floats
  std::optional<ScoreStrides> mask; // bytes
  float scale = 1;
  bool causal = false;
  int64_t window = 0; // 0: none
  ScoreRules rules;
  /// Dropout of the weights, whose numbers are those of a tensor with these
  /// strides.
  struct Dropout {
    double rate = 0;
    uint64_t id = 0;
    ScoreStrides strides{};
    bool operator==(const Dropout &) const = default;
  };
  std::optional<Dropout> dropout;
  int64_t blockQueries = 128, blockKeys = 512;
  ElementType type = ElementType::F32;
  TileProducts products = TileProducts::Float32; // multiply such elements
};

struct AttentionGradShape {
  AttentionShape forward;
  RowStrides resultGradient, queryGradient, keyGradient, valueGradient;
  /// The gradient of the bias is summed over the dims whose stride is 0. They
  /// are those of the bias.
  std::optional<ScoreStrides> biasGradient;
};

/// The counters of dropout; offsets are those of a device's block in the whole
/// tensor, or null.
struct AttentionCounters {
  const int64_t *seed = nullptr, *step = nullptr, *microbatch = nullptr;
  std::array<const int64_t *, 4> offsets{};
};

/// Pointers to void are to elements of the shape's type.
struct AttentionOperands {
  const void *query, *key, *value;
  const float *bias = nullptr;
  const uint8_t *mask = nullptr;
  AttentionCounters counters;
  void *result;
  float *lse; // [batch, heads, queries]
  void *scratch;
};

struct AttentionGradOperands {
  const void *resultGradient, *query, *key, *value, *result;
  const float *lse;
  const float *bias = nullptr;
  const uint8_t *mask = nullptr;
  AttentionCounters counters;
  void *queryGradient, *keyGradient, *valueGradient;
  float *biasGradient = nullptr;
  void *scratch;
};

/// The scratch that a call needs for a team of `threads`, in bytes. A call gets
/// 64-byte aligned memory of this size.
uint64_t attentionScratchBytes(const AttentionShape &shape, int threads);
uint64_t attentionScratchBytes(const AttentionGradShape &shape, int threads);

/// Computes attention on a team of `threads`. The bits of the results do not
/// depend on the number of threads. oneDNN must be loaded (OneDnn.h), and the
/// machine must have the products (hasTileProducts).
Result<void> runAttention(const AttentionShape &shape,
                          const AttentionOperands &operands, int threads);
Result<void> runAttentionGrad(const AttentionGradShape &shape,
                              const AttentionGradOperands &operands,
                              int threads);

std::string describe(const AttentionShape &shape);

} // namespace polyrank::runtime
