// Losses of class scores and labels. Their sum and the number of labels that
// count stay separate until the division, so that `--loss output(NAME)` finds
// both.

#pragma once

#include <optional>

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// A loss of scores [N, C, D..] and labels [N, D..].
struct LabelLoss {
  Imported scores;
  Imported weights; // [C], per class; empty: all 1
  /// Labels with this value do not count.
  std::optional<int64_t> ignored;
  /// "none": one loss per label; "sum"; "mean": the weighted mean over the
  /// labels that count.
  llvm::StringRef reduction = "mean";
  /// Label smoothing: the share of the loss that is the mean over all classes.
  double smoothing = 0;
};

/// The scores are logits. `logProbabilities`, if not null, receives their
/// log-softmax.
mlir::FailureOr<Imported> crossEntropy(Emitter &emit, const LabelLoss &loss,
                                       const Imported &labels,
                                       Imported *logProbabilities = nullptr);

/// The scores are log-probabilities: the loss is the negated score of each
/// label.
mlir::FailureOr<Imported> negativeLogLikelihood(Emitter &emit,
                                                const LabelLoss &loss,
                                                const Imported &labels);

} // namespace polyrank::frontends
