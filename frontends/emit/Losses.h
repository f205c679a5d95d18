// Losses of scores of classes and labels. Their sum and the number of labels
// that count stay apart until they are divided, so `--loss output(NAME)` finds
// both.

#pragma once

#include <optional>

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// Of scores [N, C, D..] and labels [N, D..].
struct LabelLoss {
  Imported scores;
  Imported weights; // [C], of each class; empty: 1
  /// A label of this value does not count.
  std::optional<int64_t> ignored;
  /// "none": one loss per label; "sum"; "mean": over the labels that count, by
  /// their weights.
  llvm::StringRef reduction = "mean";
  /// The share of the loss that is the mean over all classes of what they would
  /// cost.
  double smoothing = 0;
};

/// Scores are logits. `logProbabilities`, where it is given, receives their
/// logarithmic softmax.
mlir::FailureOr<Imported> crossEntropy(Emitter &emit, const LabelLoss &loss,
                                       const Imported &labels,
                                       Imported *logProbabilities = nullptr);

/// Scores are logarithms of probabilities: of each row the label's, negated.
mlir::FailureOr<Imported> negativeLogLikelihood(Emitter &emit,
                                                const LabelLoss &loss,
                                                const Imported &labels);

} // namespace polyrank::frontends
