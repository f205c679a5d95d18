// In which type of floats an op of a step of lower precision computes.

#include "dialects/graph/Precision.h"

#include "dialects/graph/Graph.h"

using namespace mlir;
using namespace polyrank;

std::optional<graph::Precision> graph::getPrecision(Operation *op) {
  if (auto reduce = dyn_cast<ReduceOp>(op);
      reduce && reduce.getKind() != sharding::ReductionKind::Sum)
    return Precision::Widest;
  if (op->hasTrait<ComputesLow>())
    return Precision::Low;
  if (op->hasTrait<ComputesWide>())
    return Precision::Wide;
  if (op->hasTrait<ComputesWidest>())
    return Precision::Widest;
  return std::nullopt;
}

bool graph::isSum(Operation *op, Value value) {
  if (auto attention = dyn_cast<AttentionOp>(op))
    return value == attention.getBias() || value == attention.getLse();
  if (auto gradient = dyn_cast<AttentionGradOp>(op))
    return value == gradient.getBias() || value == gradient.getLse() ||
           value == gradient.getBiasGradient();
  return false;
}
