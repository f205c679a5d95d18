// Runs a localized program on its devices in step, in one process.

#pragma once

#include "compiler/evaluate/Exchange.h"

namespace polyrank::evaluate {

/// Runs ops on devices in step: collectives see everybody's operands.
class RankEvaluator {
public:
  /// On all devices of the mesh.
  explicit RankEvaluator(sharding::MeshAttr mesh)
      : mesh(mesh), numDevices(mesh ? mesh.getNumDevices() : 1),
        devices(llvm::to_vector(llvm::seq<int64_t>(numDevices))) {}
  /// On those that run program `number`, while others run other programs.
  RankEvaluator(Exchange &exchange, size_t number)
      : mesh(exchange.programs.getMesh()), numDevices(mesh.getNumDevices()),
        devices(exchange.getDevices(number)), exchange(&exchange),
        number(number) {}

  virtual ~RankEvaluator() = default;

  mlir::LogicalResult runBlock(mlir::Block &block);
  llvm::DenseMap<mlir::Value, Devices> values;

protected:
  /// Sets the values of its results.
  virtual mlir::LogicalResult runOp(mlir::Operation &op);
  mlir::LogicalResult runMicrobatches(rank::MicrobatchesOp op);
  mlir::LogicalResult runMicrobatches(graph::MicrobatchesOp op);
  virtual mlir::LogicalResult runLoop(rank::LoopOp op);
  void enterMicrobatch(int64_t number, mlir::Block::BlockArgListType arguments,
                       mlir::ValueRange of, llvm::ArrayRef<Devices> handed);
  template <typename Op>
  mlir::LogicalResult runAlone(Op op);
  mlir::LogicalResult runLaunch(rank::LaunchOp op);
  void runGemm(rank::GemmOp op);
  mlir::LogicalResult runCollective(rank::CollectiveOp op);
  /// Of one that spans programs and was started.
  mlir::LogicalResult endCollective(rank::CollectiveOp op,
                                    Exchange::Meeting &meeting);
  mlir::LogicalResult checkTransfer(mlir::Operation *op,
                                    const rank::Transfer &transfer);
  virtual mlir::LogicalResult send(rank::SendOp op,
                                   const rank::Transfer &transfer);
  virtual mlir::LogicalResult receive(rank::RecvOp op,
                                      const rank::Transfer &transfer);
  /// Until `isThere` says so for each of the devices, given the one that sends.
  mlir::LogicalResult awaitTransfer(mlir::Operation *op,
                                    const rank::Transfer &transfer,
                                    llvm::function_ref<bool(int64_t)> isThere);
  /// Devices that run something else have nothing.
  Devices each(llvm::function_ref<Tensor(int64_t device)> compute) {
    Devices results(numDevices);
    for (int64_t device : devices)
      results[device] = compute(device);
    return results;
  }
  const Tensor &at(mlir::Value value, int64_t device) {
    return values[value][device];
  }

  sharding::MeshAttr mesh;
  int64_t numDevices;
  llvm::SmallVector<int64_t> devices;
  /// Null where all devices run the program.
  Exchange *exchange = nullptr;
  size_t number = 0; // of the program
  llvm::DenseMap<mlir::Operation *, Exchange::Meeting *> meetings; // in flight
};

/// The mesh of the layouts that its arguments and results have globally; null
/// without any.
sharding::MeshAttr getMesh(mlir::func::FuncOp function);
/// What each device has of a global argument.
Devices scatterArgument(const BoundaryValue &argument, const Tensor &value,
                        int64_t numDevices, uint64_t seed);
/// The global result of what the devices return.
mlir::FailureOr<Tensor> assembleResult(const BoundaryValue &result,
                                       const Devices &parts);

/// A program at work, for those who run several together.
struct RunningProgram {
  virtual ~RunningProgram() = default;
  /// Before anything runs.
  virtual mlir::LogicalResult load() { return mlir::success(); }
  virtual void setArgument(mlir::Value argument, const Devices &parts) = 0;
  virtual mlir::LogicalResult run() = 0;
  virtual Devices getResult(mlir::Value value) = 0;
};
/// The results of `joint`, whose functions run as `make` makes them: program
/// `number` of an exchange or, where all devices run one function, of none.
/// With a `turns` seed, who is next is drawn from it.
mlir::FailureOr<llvm::SmallVector<Tensor>> evaluateTogether(
    const JointFunction &joint, llvm::ArrayRef<Tensor> arguments, uint64_t seed,
    std::optional<uint64_t> turns,
    llvm::function_ref<std::unique_ptr<RunningProgram>(
        mlir::func::FuncOp function, Exchange *exchange, size_t number)>
        make);

} // namespace polyrank::evaluate
