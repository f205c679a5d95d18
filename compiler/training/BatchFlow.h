// An analysis of how the values of @forward depend on the samples of its batch:
// which values have a part for each sample, and which are sums over samples.

#pragma once

#include "dialects/graph/Boundary.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace polyrank::training {

/// How one value depends on the samples.
struct SampleFlow {
  enum class Kind {
    /// Independent of the samples: parameters, constants, inputs without a
    /// batch, and values computed from these alone.
    Free,
    /// Has a part for each sample. A sample normalized with statistics of the
    /// batch still counts as that sample's part.
    Batched,
    /// The samples lie along one dim, but several batches of them one after the
    /// other, or only some of them.
    Spread,
    /// A sum over samples: the values of several microbatches are added.
    Sum,
    /// Depends on several samples together, but is no sum over them: the square
    /// of a mean, a maximum over the batch.
    Joint,
    /// Has a part for each pair of samples, such as scores of all with all.
    Pairs,
    /// The result of an op that the analysis does not know.
    Unknown
  };
  Kind kind = Kind::Free;
  /// Of Batched: in row-major order the samples lie this many elements apart.
  /// In [8 samples, 4, 3] it is 12, and remains so when dims are merged or
  /// split. Of Spread: the distance of the indices of the samples' dim.
  int64_t stride = 0;

  bool operator==(const SampleFlow &) const = default;
  /// Returns true if the value has parts of single samples.
  bool isBatched() const {
    return kind == Kind::Batched || kind == Kind::Spread;
  }
};

/// Computes flows on demand, also of ops that are created later.
class BatchFlow {
public:
  explicit BatchFlow(mlir::func::FuncOp forward);

  SampleFlow get(mlir::Value value);
  SampleFlow::Kind kindOf(mlir::Value value) { return get(value).kind; }
  /// The dim of a batched value along which its samples lie, possibly merged
  /// with other dims.
  std::optional<int64_t> findDim(mlir::Value value);

private:
  SampleFlow ofArgument(mlir::BlockArgument argument);
  /// Computes the flows of all results; those of the operands are known.
  void compute(mlir::Operation *op);
  llvm::SmallVector<SampleFlow> through(mlir::Operation *op);
  /// The next four: the flow of the result of an op with batched operands, of
  /// which `batched` is one.
  SampleFlow throughReshape(mlir::Operation *op, SampleFlow batched);
  SampleFlow throughMovedDims(mlir::Operation *op, SampleFlow batched);
  SampleFlow throughReduce(mlir::Operation *op, SampleFlow batched);
  SampleFlow throughElementwise(mlir::Operation *op, SampleFlow batched);
  /// The flow of an op that concatenates or slices the dim of the samples;
  /// nullopt for other ops.
  std::optional<SampleFlow> throughParts(mlir::Operation *op,
                                         SampleFlow batched);
  /// Follows the factor of the op's sharding rule that the samples are.
  llvm::SmallVector<SampleFlow> throughRule(mlir::Operation *op);
  /// The flow of an op whose operands depend on samples but have no part for
  /// each.
  SampleFlow ofSums(mlir::Operation *op);
  /// The dim of `shape` along which the samples of a batched or spread value
  /// lie.
  std::optional<int64_t> findDim(llvm::ArrayRef<int64_t> shape,
                                 SampleFlow flow) const;
  /// The flow of dim `to` of `toShape`, given the flow of the same dim, `from`
  /// in `fromShape`.
  static SampleFlow moved(llvm::ArrayRef<int64_t> fromShape, int64_t from,
                          SampleFlow flow, llvm::ArrayRef<int64_t> toShape,
                          int64_t to);

  mlir::func::FuncOp forward;
  int64_t batch = 0; // 0: the model has no input
  llvm::DenseMap<mlir::Value, SampleFlow> flows;
};

} // namespace polyrank::training
