// Tells the samples of one run from those of another.

#pragma once

#include "runtime/data/DataSource.h"

#include <string>

namespace polyrank::runtime {

/// Of up to 256 samples that are spread over an epoch, in the order in which
/// training takes them: other data, another order or seed, or another holdout
/// give another one, whatever the file is called. 32 hex digits. `batch` is the
/// number of samples of a step.
Result<std::string> fingerprintOf(const DataSource &data,
                                  std::span<const InputSpec> inputs,
                                  uint64_t batch);

} // namespace polyrank::runtime
