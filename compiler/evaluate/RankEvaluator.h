// Runs a localized program on all devices in step, in one process.

#pragma once

#include "compiler/evaluate/Evaluator.h"
#include "dialects/rank/Rank.h"

namespace polyrank::evaluate {

/// Runs ops on all devices in step: collectives see everybody's operands.
class RankEvaluator {
public:
  explicit RankEvaluator(sharding::MeshAttr mesh)
      : mesh(mesh), numDevices(mesh ? mesh.getNumDevices() : 1) {}

  virtual ~RankEvaluator() = default;

  mlir::LogicalResult runBlock(mlir::Block &block);
  llvm::DenseMap<mlir::Value, Devices> values;

protected:
  /// Sets the values of its results.
  virtual mlir::LogicalResult runOp(mlir::Operation &op);
  mlir::LogicalResult runMicrobatches(rank::MicrobatchesOp op);
  mlir::LogicalResult runMicrobatches(graph::MicrobatchesOp op);
  void enterMicrobatch(int64_t number, mlir::Block::BlockArgListType arguments,
                       mlir::ValueRange of, llvm::ArrayRef<Devices> handed);
  template <typename Op>
  mlir::LogicalResult runAlone(Op op);
  mlir::LogicalResult runLaunch(rank::LaunchOp op);
  void runGemm(rank::GemmOp op);
  void runCollective(rank::CollectiveOp op);
  Devices each(llvm::function_ref<Tensor(int64_t device)> compute) {
    Devices devices;
    for (int64_t device = 0; device < numDevices; ++device)
      devices.push_back(compute(device));
    return devices;
  }
  const Tensor &at(mlir::Value value, int64_t device) { return values[value][device]; }

  sharding::MeshAttr mesh;
  int64_t numDevices;
};

/// The mesh of the layouts that its arguments and results have globally; null
/// without any.
sharding::MeshAttr getMesh(mlir::func::FuncOp function);
/// What each device has of the arguments.
llvm::SmallVector<Devices> scatterArguments(mlir::func::FuncOp function,
                                            llvm::ArrayRef<Tensor> arguments,
                                            uint64_t seed);
/// The global results of what the devices return.
mlir::FailureOr<llvm::SmallVector<Tensor>>
assembleResults(mlir::func::FuncOp function, llvm::ArrayRef<Devices> results);

} // namespace polyrank::evaluate
