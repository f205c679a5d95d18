// The composites that raise-composites finds, one per file.

#pragma once

#include <cmath>

#include "compiler/training/AttentionTerms.h"
#include "dialects/graph/Graph.h"

namespace polyrank::training {

/// Each of these replaces the ops of a composite that ends at, or passes
/// through, `op`, and returns false if there is none.

/// Both forms of gelu (Hendrycks and Gimpel 2016); `op` is the tanh or erf.
bool raiseGelu(mlir::Operation *op);
/// Layer normalization (Ba et al. 2016) and root mean square normalization
/// (Zhang and Sennrich 2019) over the last dims; `op` is the product of the
/// value, or the centred value, and the reciprocal deviation.
bool raiseNormalization(mlir::Operation *op);
/// x sigmoid(x) (Elfwing et al. 2017); `op` is the sigmoid.
bool raiseSilu(graph::SigmoidOp op);
/// Logarithms of sigmoids, softmaxes and sums of exponentials, whose argument
/// overflows or vanishes, get a stable form.
bool raiseLogarithm(graph::LogOp op);
/// Writes log1p(z), which is imported as 2 atanh(z / (z + 2)), as log(1 + z) if
/// `raiseLogarithm` has a form for that: z is e^x or -sigmoid(x), or -p in a
/// logarithm of binary_cross_entropy, which is bounded by -100.
bool spellLog1p(graph::AtanhOp op);
/// Scaled dot-product attention (Vaswani et al. 2017); `matmul` is the product
/// of the probabilities and the values. Constant masks that were read are kept
/// in `known`.
bool raiseAttention(graph::MatmulOp matmul, KnownBands &known);
/// Rows that are each multiplied with one of a few matrices, picked by an
/// index: graph.grouped_matmul, which copies no matrix. A mixture of experts is
/// exported so (`batched_mm` of transformers).
bool raiseGrouped(graph::MatmulOp matmul);
/// One reduction instead of one per consecutive block of a dim, whose results
/// `op` concatenates; a loop over bags of embeddings is unrolled to this. The
/// blocks become a dim that can be split over ranks.
bool raiseBlocks(graph::ConcatOp op);

/// Returns true if both are equal up to the rounding of a constant to fp32.
inline bool isNear(double left, double right) {
  return std::fabs(left - right) <= 1e-6 * std::fabs(right);
}

} // namespace polyrank::training
