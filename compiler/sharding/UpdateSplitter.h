// One update in parts.

#pragma once

#include "compiler/sharding/ParameterGathers.h"
#include "compiler/sharding/TensorParts.h"
#include "compiler/sharding/UpdateOps.h"
#include "mlir/IR/IRMapping.h"

namespace polyrank::sharding {

/// Rewrites one update so that each device computes its part, and keeps its
/// part of the state; by choice also of the sum over the microbatches and of
/// the parameter.
class UpdateSplitter {
public:
  /// `shared`: what depends on gradients and is of no update alone. It is left
  /// with the parts that it reads, and is to be laid out again.
  UpdateSplitter(mlir::func::FuncOp step, Update &update,
                 const llvm::DenseSet<mlir::Operation *> &shared,
                 llvm::ArrayRef<AxisRef> axes, int64_t stage);

  /// Decides on the parts, or says why there can be none.
  WhyWhole choose();
  /// Reduces the gradient of each microbatch, where there are several, so that
  /// a device adds up its part alone; or says why that cannot be. After
  /// `choose` and before `rewrite`.
  WhyWhole splitSum();
  /// Bytes of padding over all devices in the state, and with `withParameter`
  /// in the parameter.
  int64_t getExcessBytes(bool withParameter);
  /// With `gathers` the parameter is kept in parts too.
  void rewrite(ParameterGathers *gathers);

private:
  bool mayBeRow() const;
  bool isForElements(mlir::OpOperand &use) const;
  bool isSlot(mlir::OpOperand &use) const;
  mlir::RankedTensorType partType(mlir::Value whole, Fill fill) const;
  mlir::Value gather(mlir::Value part, mlir::RankedTensorType type);
  mlir::Value partOf(mlir::Value value);
  void takeGradient();
  /// Uses of the update's values by others, with the types that these see.
  using OtherUses =
      llvm::SmallVector<std::pair<mlir::OpOperand *, mlir::RankedTensorType>>;
  OtherUses findOtherUses(bool withParameter);
  void serve(mlir::OpOperand &use, mlir::RankedTensorType type);
  void rewriteOp(mlir::Operation *op);

  mlir::func::FuncOp step;
  graph::Boundary boundary;
  Update &update;
  const llvm::DenseSet<mlir::Operation *> &shared;
  mlir::Operation *terminator;
  mlir::OpBuilder builder;
  TensorParts blocks;
  mlir::IRMapping parts;
};

/// The gradient before it is reduced, where it is.
mlir::Value getSource(graph::GradientOp gradient);

/// Whether an argument's elements are stored in their order, without gaps, so
/// that a row of them can be.
bool isStoredAsRow(graph::Boundary boundary, mlir::BlockArgument argument);

} // namespace polyrank::sharding
