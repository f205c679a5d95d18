// A loss that the model computes, as means over the global batch.

#pragma once

#include "compiler/training/BatchFlow.h"
#include "dialects/graph/Parts.h"

namespace polyrank::training {

/// A sum over samples, and what it is divided by: a number that the inputs
/// alone determine, and that is added over all microbatches as the sum is. The
/// number is `least` where it is less. Without a count the part is a mean whose
/// samples weigh alike: that of the microbatches' values.
struct LossPart {
  mlir::Value sum, count;
  std::optional<double> least;
};

/// What part `number` of a mean is called in the log, where several have
/// counts.
inline std::string partName(const std::string &mean, size_t number) {
  return mean + "." + std::to_string(number + 1);
}

/// Takes a scalar apart into parts of which it is the sum.
///
///   2/3 ce + 0.01 mean(h^2) + aux
///     = [2/3 sum(l)] / [labels that count]  +  [0.01 sum(h^2) / N + aux] / 1
///
/// The parts of one number share a count. What is no mean over samples (the
/// square of a mean, say) is in the part without a count, and among `joint`.
class LossParts {
public:
  LossParts(mlir::func::FuncOp forward, graph::Parts &parts)
      : forward(forward), flow(forward), parts(parts) {}

  /// The part without a count comes last; there is one at least.
  llvm::SmallVector<LossPart> split(mlir::Value scalar);
  /// What `split` found to depend on the samples together.
  llvm::SmallVector<mlir::Operation *> takeJoint() { return std::move(joint); }

private:
  /// Terms whose sum is `value`.
  llvm::SmallVector<LossPart> expand(mlir::Value value);
  llvm::SmallVector<LossPart> expandQuotient(graph::DivOp op);
  std::optional<llvm::SmallVector<LossPart>> expandSum(graph::ReduceOp op);
  /// A term that is no sum over samples.
  llvm::SmallVector<LossPart> asJoint(mlir::Value value);
  /// `value` without the numbers, the same for all samples but made of them,
  /// that it is multiplied with or divided by: these, as scalars.
  struct Scale {
    mlir::Value number;
    bool divides;
  };
  mlir::Value withoutScales(mlir::Value value,
                            llvm::SmallVectorImpl<Scale> &scales);
  /// A number of samples or of what they have: that the inputs alone determine,
  /// and that is a sum over samples.
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
