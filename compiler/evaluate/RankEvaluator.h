// Runs a localized program on its devices in lockstep, in one process.

#pragma once

#include "compiler/evaluate/Exchange.h"

namespace polyrank::evaluate {

/// Runs each op on all its devices before the next op, so that a collective has
/// the operands of its whole group.
class RankEvaluator {
public:
  /// Runs a program on all devices of the mesh.
  RankEvaluator(sharding::MeshAttr mesh, Rounding rounding)
      : rounding(rounding), mesh(mesh),
        numDevices(mesh ? mesh.getNumDevices() : 1),
        devices(llvm::to_vector(llvm::seq<int64_t>(numDevices))) {}
  /// Runs program `number` on its devices, while others run other programs.
  RankEvaluator(Exchange &exchange, size_t number, Rounding rounding)
      : rounding(rounding), mesh(exchange.programs.getMesh()),
        numDevices(mesh.getNumDevices()), devices(exchange.getDevices(number)),
        exchange(&exchange), number(number) {}

  virtual ~RankEvaluator() = default;

  mlir::LogicalResult runBlock(mlir::Block &block);
  llvm::DenseMap<mlir::Value, Devices> values;

protected:
  /// Executes one op and sets the values of its results, rounded.
  virtual mlir::LogicalResult runOp(mlir::Operation &op);
  mlir::LogicalResult compute(mlir::Operation &op);
  mlir::LogicalResult runMicrobatches(rank::MicrobatchesOp op);
  mlir::LogicalResult runMicrobatches(graph::MicrobatchesOp op);
  virtual mlir::LogicalResult runLoop(rank::LoopOp op);
  void enterMicrobatch(int64_t number, mlir::Block::BlockArgListType arguments,
                       mlir::ValueRange of, llvm::ArrayRef<Devices> handed);
  template <typename Op>
  mlir::LogicalResult runAlone(Op op);
  mlir::LogicalResult runLaunch(rank::LaunchOp op);
  mlir::LogicalResult runCollective(rank::CollectiveOp op);
  /// Completes a collective whose group spans several programs: waits until all
  /// members have arrived, then computes the results.
  mlir::LogicalResult endCollective(rank::CollectiveOp op,
                                    Exchange::Meeting &meeting);
  mlir::LogicalResult checkTransfer(mlir::Operation *op,
                                    const rank::Transfer &transfer);
  mlir::LogicalResult send(rank::SendOp op, const rank::Transfer &transfer);
  mlir::LogicalResult receive(rank::RecvOp op, const rank::Transfer &transfer);
  /// Waits until `isThere(sender)` is true for the sender of each of the
  /// devices.
  mlir::LogicalResult awaitTransfer(mlir::Operation *op,
                                    const rank::Transfer &transfer,
                                    llvm::function_ref<bool(int64_t)> isThere);
  /// One tensor per device; devices that run another program hold none.
  Devices each(llvm::function_ref<Tensor(int64_t device)> compute) {
    Devices results(numDevices);
    for (int64_t device : devices)
      results[device] = compute(device);
    return results;
  }
  const Tensor &at(mlir::Value value, int64_t device) {
    return values[value][device];
  }

  Rounding rounding;
  sharding::MeshAttr mesh;
  int64_t numDevices;
  llvm::SmallVector<int64_t> devices;
  /// Null if all devices run the same program.
  Exchange *exchange = nullptr;
  size_t number = 0; // this program's number in `exchange`
  llvm::DenseMap<mlir::Operation *, Exchange::Meeting *> meetings; // in flight
};

/// The mesh of the global layouts of the function's arguments and results; null
/// if none has a layout.
sharding::MeshAttr getMesh(mlir::func::FuncOp function);
/// Each device's part of a global argument.
Devices scatterArgument(const BoundaryValue &argument, const Tensor &value,
                        int64_t numDevices, uint64_t seed);
/// Reassembles a global result from what the devices return.
mlir::FailureOr<Tensor> assembleResult(const BoundaryValue &result,
                                       const Devices &parts);

/// A program in execution, as `evaluateTogether` runs it.
struct RunningProgram {
  virtual ~RunningProgram() = default;
  /// Prepares the arena; called before any program runs.
  virtual mlir::LogicalResult load() { return mlir::success(); }
  virtual void setArgument(mlir::Value argument, const Devices &parts) = 0;
  virtual mlir::LogicalResult run() = 0;
  virtual Devices getResult(mlir::Value value) = 0;
};
/// The results of `joint`. `make` creates the running program of each function:
/// program `number` of an exchange or, if all devices run one function, a
/// program with a null exchange. If the seed `turns` is given, the program that
/// runs next is drawn from it.
mlir::FailureOr<llvm::SmallVector<Tensor>> evaluateTogether(
    const JointFunction &joint, llvm::ArrayRef<Tensor> arguments, uint64_t seed,
    std::optional<uint64_t> turns,
    llvm::function_ref<std::unique_ptr<RunningProgram>(
        mlir::func::FuncOp function, Exchange *exchange, size_t number)>
        make);

} // namespace polyrank::evaluate
