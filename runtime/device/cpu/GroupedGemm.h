// Products of groups, which are as large as data says.

#pragma once

#include "runtime/device/cpu/Gemm.h"

namespace polyrank::runtime {

/// `shape` is grouped, and its library Sgemm, which takes any sizes. Rows of
/// one group are one product, and are read in place where they follow each
/// other; others are brought together a few at a time, in the scratch. Which
/// group a row is in is known when it runs, and may be any number. The bits do
/// not depend on the number of threads.
Result<std::unique_ptr<PreparedGemm>> prepareGroupedGemm(const GemmShape &shape,
                                                         int threads);

} // namespace polyrank::runtime
