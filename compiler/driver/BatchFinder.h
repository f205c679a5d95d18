// Moves the batch of a given size to dim 0 of the inputs and outputs of a
// model.

#pragma once

#include <array>
#include <vector>

#include "compiler/sharding/ShardPattern.h"
#include "compiler/training/BatchFlow.h"
#include "dialects/graph/Boundary.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace polyrank::driver {

/// The options that say which dims of inputs are the batch.
struct Said {
  std::vector<sharding::ShardPattern> patterns;
  llvm::SmallVector<llvm::StringRef> batchAxes;

  /// The dim of an input that is its batch, or noBatch; nullopt if the options
  /// do not say.
  std::optional<int64_t> operator()(llvm::StringRef name, size_t rank) const;
};

/// Moves the batch of a given size to dim 0.
class BatchFinder {
public:
  BatchFinder(mlir::ModuleOp module, const Said &said, int64_t batch)
      : module(module), said(said), batch(batch),
        forward(module.lookupSymbol<mlir::func::FuncOp>("forward")),
        boundary(forward) {}

  mlir::LogicalResult run();
  /// Rates how likely the size is the batch's, most important number first: the
  /// outputs in which the samples of such a batch lie along a dim; the outputs
  /// with this size in dim 0; the inputs with it in dim 0, where an open dim
  /// counts twice. Changes the inputs.
  std::array<int64_t, 3> rate();

private:
  /// The dim of an input that is its batch, or noBatch, or inOneDim. Emits an
  /// error if that is ambiguous; a rating takes the first candidate instead.
  mlir::FailureOr<int64_t> findDim(mlir::BlockArgument input);
  /// Returns true if dim 0 has as many elements as the first two dims of
  /// another input, or of an output, that begins with the batch.
  bool isBatchAndAnother(llvm::ArrayRef<int64_t> shape);
  mlir::LogicalResult findInput(mlir::BlockArgument input);
  void findOutput(unsigned number, training::BatchFlow &flow);
  mlir::InFlightDiagnostic remark() {
    return mlir::emitRemark(module.getLoc());
  }
  graph::InputAttr roleOf(mlir::BlockArgument argument) {
    return boundary.getArgument<graph::InputAttr>(argument.getArgNumber());
  }

  mlir::ModuleOp module;
  const Said &said;
  int64_t batch;
  bool isTried = false; // true while rating
  mlir::func::FuncOp forward;
  graph::Boundary boundary;
};

} // namespace polyrank::driver
