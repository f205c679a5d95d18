// The composites that raise-composites finds, each in a file of its own.

#pragma once

#include <cmath>
#include <map>
#include <tuple>

#include "dialects/graph/Graph.h"

namespace polyrank::training {

/// What constant masks of attentions say, by the constant, since the layers of
/// a model have the same one: it has as many elements as there are pairs of
/// positions.
struct KnownMasks {
  /// Of booleans that a value [queries, keys] repeats: steps in the constant
  /// from query to query and from key to key, and both sizes.
  using Key = std::tuple<const void *, int64_t, int64_t, int64_t, int64_t>;
  struct Visible {
    bool all = true, causal = true;
    /// Whether each query sees a key.
    bool some = true;
    /// [queries, keys]; null where `all` or `causal`.
    mlir::DenseElementsAttr elements;
  };
  std::map<Key, Visible> visible;
  /// Of numbers that are added: where they are zero, and what they are
  /// elsewhere; null where they are no mask.
  struct Additive {
    mlir::DenseElementsAttr visible;
    double fill = 0;
  };
  llvm::DenseMap<mlir::Attribute, Additive> additive;
};

/// Each of these replaces the parts of a composite that end at, or pass
/// through, the op; false where it is no such part.

/// Both forms of gelu (Hendrycks and Gimpel 2016); `op` is the tanh or erf.
bool raiseGelu(mlir::Operation *op);
/// Layer normalization (Ba et al. 2016) and root mean square normalization
/// (Zhang and Sennrich 2019) over the last dims; `op` is the product of the
/// value, or the centred value, and the reciprocal deviation.
bool raiseNormalization(mlir::Operation *op);
/// x sigmoid(x) (Elfwing et al. 2017); `op` is the sigmoid.
bool raiseSilu(graph::SigmoidOp op);
/// A logarithm of what overflows or vanishes, in a form that does not: of
/// sigmoids, softmaxes and sums of exponentials.
bool raiseLogarithm(graph::LogOp op);
/// Scaled dot-product attention (Vaswani et al. 2017); `matmul` is the product
/// of the probabilities and the values. Masks that it reads become `known`.
bool raiseAttention(graph::MatmulOp matmul, KnownMasks &known);
/// Rows that are multiplied with one matrix each, which an index picks out of a
/// few: graph.grouped_matmul, which copies none of them. What a mixture of
/// experts exports (`batched_mm` of transformers).
bool raiseGrouped(graph::MatmulOp matmul);
/// One reduction instead of one for each of the consecutive blocks of a dim,
/// which `op` puts together: what a loop over bags of embeddings is unrolled
/// to. The blocks become a dim that can be split over ranks.
bool raiseBlocks(graph::ConcatOp op);

/// Equal up to the rounding of a constant to fp32.
inline bool isNear(double left, double right) {
  return std::fabs(left - right) <= 1e-6 * std::fabs(right);
}

} // namespace polyrank::training
