// How the values of @forward follow the samples of its batch: which of them
// have a part for each sample, and which are sums over samples.

#pragma once

#include "dialects/graph/Boundary.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace polyrank::training {

/// Of one value.
struct SampleFlow {
  enum class Kind {
    /// No sample changes it: parameters, constants, inputs without a batch, and
    /// what is made of them.
    Free,
    /// It has a part for each sample. What a normalization with statistics of
    /// the batch makes of a sample counts as the sample's own.
    Batched,
    /// The samples lie along one dim, several batches of them one after the
    /// other or some left out.
    Spread,
    /// A sum over samples: of several microbatches the values are added.
    Sum,
    /// It depends on the samples together, and is no sum over them: the square
    /// of a mean, a maximum over the batch.
    Joint,
    /// It has a part for each pair of samples, such as scores of all with all.
    Pairs,
    /// An op of which the analysis cannot tell.
    Unknown
  };
  Kind kind = Kind::Free;
  /// Of one that is batched: in row-major order the samples lie this many
  /// elements apart. In [8 samples, 4, 3] it is 12, and stays that when dims
  /// are merged or split. Of one that is spread so do the indices of that dim.
  int64_t stride = 0;

  bool operator==(const SampleFlow &) const = default;
  /// Whether it has parts of samples by themselves.
  bool isBatched() const {
    return kind == Kind::Batched || kind == Kind::Spread;
  }
};

/// Computes flows as they are asked for, of ops that are built later too.
class BatchFlow {
public:
  explicit BatchFlow(mlir::func::FuncOp forward);

  SampleFlow get(mlir::Value value);
  SampleFlow::Kind kindOf(mlir::Value value) { return get(value).kind; }
  /// The dim of a batched value in which its samples lie, alone or together
  /// with other dims.
  std::optional<int64_t> findDim(mlir::Value value);

private:
  SampleFlow ofArgument(mlir::BlockArgument argument);
  /// Of all results, once those of the operands are known.
  void compute(mlir::Operation *op);
  llvm::SmallVector<SampleFlow> through(mlir::Operation *op);
  /// Of an op with batched operands, of which `batched` is one.
  SampleFlow throughReshape(mlir::Operation *op, SampleFlow batched);
  SampleFlow throughMovedDims(mlir::Operation *op, SampleFlow batched);
  SampleFlow throughReduce(mlir::Operation *op, SampleFlow batched);
  SampleFlow throughElementwise(mlir::Operation *op, SampleFlow batched);
  /// Of an op that puts together or takes apart the dim of the samples.
  std::optional<SampleFlow> throughParts(mlir::Operation *op,
                                         SampleFlow batched);
  /// By the op's sharding rule: the factor that the samples are.
  llvm::SmallVector<SampleFlow> throughRule(mlir::Operation *op);
  /// Of operands that depend on samples and have no part for each.
  SampleFlow ofSums(mlir::Operation *op);
  /// The dim of `shape` in which the samples of a batched or spread value lie.
  std::optional<int64_t> findDim(llvm::ArrayRef<int64_t> shape,
                                 SampleFlow flow) const;
  /// `flow` of dim `to` of `toShape`, which is dim `from` of `fromShape`.
  static SampleFlow moved(llvm::ArrayRef<int64_t> fromShape, int64_t from,
                          SampleFlow flow, llvm::ArrayRef<int64_t> toShape,
                          int64_t to);

  mlir::func::FuncOp forward;
  int64_t batch = 0; // 0: the model has no input
  llvm::DenseMap<mlir::Value, SampleFlow> flows;
};

} // namespace polyrank::training
