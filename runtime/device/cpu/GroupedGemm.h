// Grouped GEMMs, whose group sizes are known only at run time.

#pragma once

#include "runtime/device/cpu/Gemm.h"

namespace polyrank::runtime {

/// Prepares a grouped `shape` with the library Sgemm, which takes any sizes, or
/// of narrow elements Widened.
/// The rows of one group form one GEMM. Contiguous rows are read in place;
/// others are gathered in the scratch, a few at a time. The group of each row
/// is read at run time and may be any number. The bits do not depend on the
/// number of threads.
Result<std::unique_ptr<PreparedGemm>> prepareGroupedGemm(const GemmShape &shape,
                                                         int threads);

} // namespace polyrank::runtime
