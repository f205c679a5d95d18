// Splits a loss that the model computes into means over the global batch.

#pragma once

#include "compiler/training/BatchFlow.h"
#include "dialects/graph/Parts.h"

namespace polyrank::training {

/// A sum over samples, and the count by which it is divided. The count depends
/// on inputs alone and is added over all microbatches, as the sum is. It is
/// raised to `least` if it is smaller. A part without a count is a mean whose
/// samples have equal weights: the mean of the microbatches' values.
struct LossPart {
  mlir::Value sum, count;
  std::optional<double> least;
};

/// The name in the log of part `number` of a mean of which several parts have
/// counts.
inline std::string partName(const std::string &mean, size_t number) {
  return mean + "." + std::to_string(number + 1);
}

/// Splits a scalar into parts of which it is the sum.
///
///   2/3 ce + 0.01 mean(h^2) + aux
///     = [2/3 sum(l)] / [labels that count]  +  [0.01 sum(h^2) / N + aux] / 1
///
/// Parts with the same count become one. Values that are no mean over samples
/// (such as the square of a mean) are in the part without a count, and in
/// `joint`.
class LossParts {
public:
  LossParts(mlir::func::FuncOp forward, graph::Parts &parts)
      : forward(forward), flow(forward), parts(parts) {}

  /// Splits a scalar. There is at least one part; the one without a count is
  /// last.
  llvm::SmallVector<LossPart> split(mlir::Value scalar);
  /// Returns the ops for which `split` found that they depend on several
  /// samples together.
  llvm::SmallVector<mlir::Operation *> takeJoint() { return std::move(joint); }

private:
  /// The terms whose sum is `value`.
  llvm::SmallVector<LossPart> expand(mlir::Value value);
  llvm::SmallVector<LossPart> expandQuotient(graph::DivOp op);
  std::optional<llvm::SmallVector<LossPart>> expandSum(graph::ReduceOp op);
  /// A term that is no sum over samples.
  llvm::SmallVector<LossPart> asJoint(mlir::Value value);
  /// Returns `value` without the scalars by which it is multiplied or divided,
  /// if these are computed from the samples but the same for all; `scales`
  /// lists them.
  struct Scale {
    mlir::Value number;
    bool divides;
  };
  mlir::Value withoutScales(mlir::Value value,
                            llvm::SmallVectorImpl<Scale> &scales);
  /// Finds a count: a scalar that depends on inputs alone and is a sum over
  /// samples, such as a number of samples or labels.
  std::optional<LossPart> findCount(mlir::Value value);
  std::optional<LossPart> buildCount(mlir::Value value);
  bool dependsOnInputsAlone(mlir::Value value);

  mlir::func::FuncOp forward;
  BatchFlow flow;
  graph::Parts &parts;
  llvm::SmallVector<mlir::Operation *> joint;
  llvm::DenseMap<mlir::Value, std::optional<LossPart>> counts;
};

} // namespace polyrank::training
