// The gradient of a value that many slices take apart.

#pragma once

#include "dialects/graph/Graph.h"
#include "llvm/ADT/MapVector.h"

namespace polyrank::graph {

/// A slice's gradient is as large as the whole: zeros around a part. Where a
/// model takes a sequence apart step by step, n of these would be added: n
/// times the elements. So the parts wait until all of them are there, and are
/// joined once, end to end:
///
///   x[:, 0], x[:, 1], x[:, 3] of [2, 5]  ->  concat(g0, g1, pad(g3, 1, 1))
///
/// Parts that overlap are added where they do: as many wholes as lie over each
/// other, not as many as there are.
class SliceGradients {
public:
  /// Of the values that at least `manySlices` of `ops` take parts of. The
  /// padded gradients of fewer are added by one kernel in one pass.
  explicit SliceGradients(llvm::ArrayRef<mlir::Operation *> ops);
  static constexpr unsigned manySlices = 8;

  /// Whether the gradient of `op` is for `add`.
  bool takes(graph::SliceOp op) const;
  /// `gradient` is that of the result of `op`.
  void add(graph::SliceOp op, mlir::Value gradient);

  /// The first slice in the program whose gradient waits for that of `value`;
  /// null where none does.
  graph::SliceOp getFirst(mlir::Value value) const;
  /// The gradient of `value` from the parts that wait, of which there is one,
  /// in ops made by `builder`. They wait no longer.
  mlir::Value join(mlir::OpBuilder &builder, mlir::Value value);

private:
  struct Part {
    graph::SliceOp op;
    mlir::Value gradient;
  };
  llvm::DenseMap<mlir::Value, llvm::SmallVector<Part>> parts;
};

} // namespace polyrank::graph
