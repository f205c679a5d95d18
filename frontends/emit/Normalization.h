// Norms that are several ops: over groups of channels, and over the batch.

#pragma once

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// x without its mean over `dims`, divided by its deviation. The variance is
/// that of centred values, so it does not cancel.
Imported standardize(Emitter &emit, const Imported &x,
                     llvm::ArrayRef<int64_t> dims, double epsilon);

/// Over the channels (dim 1) of each of `groups` and all dims behind them, with
/// scale and bias, where these are given, per channel, or per group.
mlir::FailureOr<Imported> normalizeGroups(Emitter &emit, const Imported &x,
                                          int64_t groups, const Imported &scale,
                                          const Imported &bias, bool perGroup,
                                          double epsilon);

/// (x - mean) / sqrt(variance + epsilon) * scale + bias, each per channel (dim
/// 1 of x); scale and bias may be empty.
struct BatchNormalization {
  Imported scale, bias, mean, variance;
  double epsilon;
};

/// With the statistics of `norm`.
Imported normalizeByStored(Emitter &emit, const Imported &x,
                           const BatchNormalization &norm);

/// What a batch gives: statistics as running ones follow them, of the groups'
/// mean.
struct BatchStatistics {
  Imported normalized, mean, variance;
};

/// Ioffe and Szegedy (2015), with PyTorch's choices: the batch is normalized
/// with its biased variance, and the running variance follows the unbiased one.
/// The variance is that of centred values (two passes), so it does not cancel.
/// Statistics are those of `group` samples each; 0: of the whole batch.
mlir::FailureOr<BatchStatistics>
normalizeByBatch(Emitter &emit, const Imported &x,
                 const BatchNormalization &norm, int64_t group);

/// What a stored statistic becomes in a step: momentum * stored + (1 -
/// momentum)
/// * batch.
Imported movedTowards(Emitter &emit, const Imported &stored,
                      const Imported &batch, double momentum);

} // namespace polyrank::frontends
