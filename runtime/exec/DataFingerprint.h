// A fingerprint that tells the samples of one run from those of another.

#pragma once

#include "runtime/data/DataSource.h"

#include <string>

namespace polyrank::runtime {

/// Returns the fingerprint of up to 256 samples, spread over an epoch, in the
/// order in which training takes them, as 32 hex digits. It differs if data,
/// order, seed or holdout differ, and does not depend on file names. `batch` is
/// the number of samples of a step.
Result<std::string> fingerprintOf(const DataSource &data,
                                  std::span<const InputSpec> inputs,
                                  uint64_t batch);

} // namespace polyrank::runtime
