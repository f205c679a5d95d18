// The dialects of the compiler.

#pragma once

#include "dialects/graph/Graph.h"
#include "dialects/kernel/Kernel.h"
#include "dialects/pipeline/Pipeline.h"
#include "dialects/rank/Rank.h"
#include "dialects/sharding/Sharding.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace polyrank {

inline void registerDialects(mlir::DialectRegistry &registry) {
  registry.insert<graph::GraphDialect, sharding::ShardingDialect,
                  rank::RankDialect, kernel::KernelDialect,
                  pipeline::PipelineDialect, mlir::arith::ArithDialect,
                  mlir::func::FuncDialect, mlir::math::MathDialect>();
}

} // namespace polyrank
