// Converts a rank.gemm to the runtime's description of a matrix product.

#pragma once

#include "dialects/rank/Rank.h"
#include "runtime/plan/GemmShape.h"

namespace polyrank::target {

/// The library and the pieces are those of its `call`, or else the defaults.
runtime::GemmShape getGemmShape(rank::GemmOp gemm);

} // namespace polyrank::target
