// Which of oneDNN's functions computes each product.

#pragma once

#include "dialects/rank/Rank.h"

namespace polyrank::cpu {

/// Gives each product its `call`. With `measure` those of much work are run
/// with each candidate, once for equal ones.
void chooseCalls(llvm::ArrayRef<rank::GemmOp> gemms, int64_t threads,
                 bool measure);

} // namespace polyrank::cpu
