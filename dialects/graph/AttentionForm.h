// What attention computes, as its ops and the calls of libraries share it.

#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

namespace polyrank::graph {

struct Tensor;
enum class Masked : uint32_t; // GraphEnums.td

/// Everything about an attention but its operands and their sizes. See
/// `graph.attention`.
struct AttentionForm {
  /// Scores are scale * q k^T.
  double scale = 1;
  /// Hides the keys after the query, both counted from the last.
  bool causal = false;
  /// Hides all but so many last keys up to the query's own.
  std::optional<int64_t> window;
  /// Scores become softcap * tanh(score / softcap).
  std::optional<double> softcap;
  /// What hidden keys count, and the number that is added to their scores or
  /// replaces them.
  Masked masked = Masked(0);
  double fill = 0;
  /// The dropout of the probabilities.
  std::optional<double> rate;
  int64_t rngId = 0;
  /// The shape of the probabilities on all devices; empty if this is it.
  llvm::SmallVector<int64_t> globalShape;
};

/// Reads the form of an op whose attributes have its names.
template <typename Op>
AttentionForm readAttentionForm(Op op) {
  AttentionForm form;
  form.scale = op.getScale().convertToDouble();
  form.causal = op.getCausal();
  form.window = op.getWindow();
  if (auto softcap = op.getSoftcap())
    form.softcap = softcap->convertToDouble();
  form.masked = op.getMasked();
  if (auto fill = op.getFill())
    form.fill = fill->convertToDouble();
  if (auto rate = op.getRate())
    form.rate = rate->convertToDouble();
  form.rngId = op.getRngId().value_or(0);
  if (auto shape = op.getGlobalShape())
    llvm::append_range(form.globalShape, *shape);
  return form;
}

/// The sizes of an attention: each of `groups` heads of keys and values serves
/// heads / groups heads of queries.
struct AttentionSizes {
  int64_t batch, heads, groups, queries, keys, width, valueWidth;

  /// `query` [batch, heads, queries, width], `value` [batch, groups, keys,
  /// valueWidth].
  AttentionSizes(llvm::ArrayRef<int64_t> query, llvm::ArrayRef<int64_t> value)
      : batch(query[0]), heads(query[1]), groups(value[1]), queries(query[2]),
        keys(value[2]), width(query[3]), valueWidth(value[3]) {}
  /// The shape of scores and probabilities.
  llvm::SmallVector<int64_t, 4> getScoreShape() const {
    return {batch, heads, queries, keys};
  }
};

/// The keys [first, second) that `causal` and `window` let a query see.
std::pair<int64_t, int64_t> getVisibleKeys(const AttentionForm &form,
                                           const AttentionSizes &sizes,
                                           int64_t query);
/// The pairs of query and key in one head that count: all but those that have
/// no weight because of `causal` and `window`.
int64_t countPairs(const AttentionForm &form, const AttentionSizes &sizes);

/// The operands of an attention as tensors; those that are not there are null
/// or empty.
struct AttentionTensors {
  const Tensor *query, *key, *value, *bias, *mask;
  /// Seed, step and microbatch, and with a global shape the place of the block
  /// in it.
  llvm::ArrayRef<Tensor> counters;
};

/// The reference implementations; results come with types and zeros.
/// @{
void evaluateAttention(const AttentionForm &form,
                       const AttentionTensors &tensors, Tensor &result,
                       Tensor &lse);
/// The gradients of query, key and value, and, if `biasGradient` is not null,
/// of the bias. `gradient` is that of the result.
void evaluateAttentionGrad(const AttentionForm &form,
                           const AttentionTensors &tensors,
                           const Tensor &gradient, const Tensor &result,
                           const Tensor &lse, Tensor &queryGradient,
                           Tensor &keyGradient, Tensor &valueGradient,
                           Tensor *biasGradient);
/// @}

} // namespace polyrank::graph
