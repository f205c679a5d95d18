// Moves the batch of a given size to dim 0 of the inputs and outputs of a
// model.

#pragma once

#include <array>
#include <vector>

#include "compiler/sharding/ShardPattern.h"
#include "compiler/training/BatchFlow.h"
#include "dialects/graph/Boundary.h"
#include "frontends/import/Options.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace polyrank::driver {

/// A dim that may be the batch, in all inputs that have it.
struct BatchDim {
  int64_t size = 1;
  bool isOpen = false; // in the file
  /// The name that an open dim has in the file, or "".
  llvm::StringRef name;

  bool operator==(const BatchDim &) const = default;
};

/// Holds what the options and the file say about which dims of inputs are the
/// batch.
struct Said {
  std::vector<sharding::ShardPattern> patterns;
  llvm::SmallVector<llvm::StringRef> batchAxes;
  const llvm::StringMap<frontends::OpenDims> &openDims;

  /// The dim of an input that is its batch, or noBatch; nullopt if the options
  /// do not say.
  std::optional<int64_t> operator()(llvm::StringRef name, size_t rank) const;
  /// The dims of an input.
  llvm::SmallVector<BatchDim> dimsOf(mlir::BlockArgument input,
                                     llvm::StringRef name) const;
  /// Returns true if the sizes are equal and nothing in the file says that the
  /// dims are different ones. A dim that the file fixes is none that it leaves
  /// open under a name. Two names are of different dims if an input has both:
  /// some exporters give each open dim of each input a name of its own.
  bool mayBeSame(const BatchDim &one, const BatchDim &other) const;
};

/// Moves the batch to dim 0.
class BatchFinder {
public:
  BatchFinder(mlir::ModuleOp module, const Said &said, BatchDim batch)
      : module(module), said(said), batchDim(batch), batch(batch.size),
        forward(module.lookupSymbol<mlir::func::FuncOp>("forward")),
        boundary(forward) {}

  mlir::LogicalResult run();
  /// Rates how likely the size is the batch's, most important number first: the
  /// outputs in which the samples of such a batch lie along a dim; the outputs
  /// with this size in dim 0; the inputs with it in dim 0, plus those that have
  /// it in a dim that the file leaves open. Changes the inputs.
  std::array<int64_t, 3> rate();

private:
  /// The dims of an input that may be its batch by size and name: those of its
  /// name, or else all if dim 0 is among them, or else the open ones.
  llvm::SmallVector<int64_t> findCandidates(mlir::BlockArgument input);
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
  BatchDim batchDim;
  int64_t batch;        // its size
  bool isTried = false; // true while rating
  mlir::func::FuncOp forward;
  graph::Boundary boundary;
};

} // namespace polyrank::driver
