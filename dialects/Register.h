// The dialects of the compiler.

#pragma once

#include "dialects/graph/Graph.h"
#include "dialects/rank/Rank.h"
#include "dialects/sharding/Sharding.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace polyrank {

inline void registerDialects(mlir::DialectRegistry &registry) {
  registry.insert<graph::GraphDialect, sharding::ShardingDialect,
                  rank::RankDialect, mlir::func::FuncDialect>();
}

} // namespace polyrank
