// How the iterations of a scan are evaluated.

#pragma once

#include "dialects/graph/Graph.h"

namespace polyrank::graph {

/// Evaluates an op: `results` come with types and zeros.
using EvaluateOp = llvm::function_ref<llvm::LogicalResult(
    GraphOp op, llvm::ArrayRef<Tensor> operands,
    llvm::MutableArrayRef<Tensor> results)>;

/// Runs the iterations of a scan, in which `evaluate` computes each op of the
/// body.
llvm::LogicalResult evaluateScan(ScanOp scan, llvm::ArrayRef<Tensor> operands,
                                 llvm::MutableArrayRef<Tensor> results,
                                 EvaluateOp evaluate);

} // namespace polyrank::graph
