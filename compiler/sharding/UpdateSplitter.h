// Splits the update of one parameter into parts, one per device (ZeRO).

#pragma once

#include "compiler/sharding/ParameterGathers.h"
#include "compiler/sharding/TensorParts.h"
#include "compiler/sharding/UpdateOps.h"
#include "mlir/IR/IRMapping.h"

namespace polyrank::sharding {

/// Rewrites one update so that each device computes its part and keeps its part
/// of the state, and optionally its part of the sum over the microbatches and
/// of the parameter.
class UpdateSplitter {
public:
  /// `shared` holds the ops that depend on gradients and belong to no single
  /// update. They are left reading parts and must be laid out again.
  UpdateSplitter(mlir::func::FuncOp step, Update &update,
                 const llvm::DenseSet<mlir::Operation *> &shared,
                 llvm::ArrayRef<AxisRef> axes, int64_t stage);

  /// Chooses the parts, or returns why there are none.
  WhyWhole choose();
  /// Reduces the gradient of each microbatch, if there are several, so that a
  /// device adds up only its part; or returns why that is impossible. Called
  /// after `choose` and before `rewrite`.
  WhyWhole splitSum();
  /// Bytes of padding, over all devices, in the state and (`withParameter`) in
  /// the parameter.
  int64_t getExcessBytes(bool withParameter);
  /// Rewrites the update. If `gathers` is given, the parameter is kept in parts
  /// too.
  void rewrite(ParameterGathers *gathers);

private:
  bool mayBeRow() const;
  bool isForElements(mlir::OpOperand &use) const;
  bool isSlot(mlir::OpOperand &use) const;
  mlir::RankedTensorType partType(mlir::Value whole, Fill fill) const;
  mlir::Value gather(mlir::Value part, mlir::RankedTensorType type);
  mlir::Value partOf(mlir::Value value);
  void takeGradient();
  /// Uses of the update's values by other ops, with the types that these
  /// expect.
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

/// The gradient before its reduction, if it is reduced.
mlir::Value getSource(graph::GradientOp gradient);

/// Returns true if an argument's elements are stored in order and without gaps,
/// so that parts of them as a row are consecutive.
bool isStoredAsRow(graph::Boundary boundary, mlir::BlockArgument argument);

} // namespace polyrank::sharding
