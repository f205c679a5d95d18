// The gradient of a value that is decomposed by many slices.

#pragma once

#include "dialects/graph/Graph.h"
#include "llvm/ADT/MapVector.h"

namespace polyrank::graph {

/// The gradient of a slice is as large as the whole tensor: zeros around a
/// part. If a model slices a sequence step by step, adding n such gradients
/// takes n times the elements. So the parts are collected until all of them are
/// there, and are then joined once, end to end:
///
///   x[:, 0], x[:, 1], x[:, 3] of [2, 5]  ->  concat(g0, g1, pad(g3, 1, 1))
///
/// Overlapping parts are added: the result is a sum of as many whole tensors as
/// parts lie over each other at most, not of as many as there are parts.
class SliceGradients {
public:
  /// Collects the gradients of values that at least `manySlices` of `ops`
  /// slice. With fewer slices, one kernel adds their padded gradients in one
  /// pass.
  explicit SliceGradients(llvm::ArrayRef<mlir::Operation *> ops);
  static constexpr unsigned manySlices = 8;

  /// Returns true if the gradient of the result of `op` must be passed to
  /// `add`.
  bool takes(graph::SliceOp op) const;
  /// Adds `gradient`, that of the result of `op`.
  void add(graph::SliceOp op, mlir::Value gradient);

  /// The slice of `value` that comes first in the program among those whose
  /// gradients are collected here; null if there is none.
  graph::SliceOp getFirst(mlir::Value value) const;
  /// Builds the gradient of `value` from its collected parts, of which there is
  /// at least one, by `builder`. The parts are then removed.
  mlir::Value join(mlir::OpBuilder &builder, mlir::Value value);

private:
  struct Part {
    graph::SliceOp op;
    mlir::Value gradient;
  };
  llvm::DenseMap<mlir::Value, llvm::SmallVector<Part>> parts;
};

} // namespace polyrank::graph
