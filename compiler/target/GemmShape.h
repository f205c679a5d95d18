// A rank.gemm as the runtime's description of a matrix product.

#pragma once

#include "dialects/rank/Rank.h"
#include "runtime/plan/GemmShape.h"

namespace polyrank::target {

/// With library and pieces as its `call` says, or else their defaults.
runtime::GemmShape getGemmShape(rank::GemmOp gemm);

} // namespace polyrank::target
