// Norms that are several ops: over groups of channels and over the batch.

#pragma once

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// (x - mean) / deviation over `dims`. The variance is computed from centred
/// values (two passes), so it does not cancel.
Imported standardize(Emitter &emit, const Imported &x,
                     llvm::ArrayRef<int64_t> dims, double epsilon);

/// Normalizes each of `groups` groups of channels (dim 1) over its channels and
/// all dims after them. Scale and bias, if not empty, are per channel or, if
/// `perGroup`, per group.
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

/// Normalizes with the stored statistics of `norm`.
Imported normalizeByStored(Emitter &emit, const Imported &x,
                           const BatchNormalization &norm);

/// The normalized batch and the mean and variance that update the running
/// statistics, averaged over the groups.
struct BatchStatistics {
  Imported normalized, mean, variance;
};

/// Ioffe and Szegedy (2015), with PyTorch's choices: the batch is normalized
/// with its biased variance, and the running variance is updated with the
/// unbiased one. The variance is computed from centred values (two passes), so
/// it does not cancel. Each `group` samples have their own statistics; 0: the
/// whole batch.
mlir::FailureOr<BatchStatistics>
normalizeByBatch(Emitter &emit, const Imported &x,
                 const BatchNormalization &norm, int64_t group);

/// The new value of a stored statistic after a step: momentum * stored + (1 -
/// momentum) * batch.
Imported movedTowards(Emitter &emit, const Imported &stored,
                      const Imported &batch, double momentum);

} // namespace polyrank::frontends
