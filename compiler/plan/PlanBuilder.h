// Declarations shared by the parts of the plan writer.

#pragma once

#include <map>

#include "compiler/overlap/Queues.h"
#include "compiler/overlap/Timeline.h"
#include "compiler/target/Target.h"
#include "dialects/graph/Graph.h"
#include "dialects/rank/Rank.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/plan/plan_generated.h"

namespace polyrank::plan {

namespace fb = polyrank::runtime::plan;

/// Returns the plan's element type. Emits an error at `op` if there is none.
mlir::FailureOr<fb::ElementType> getDType(mlir::Operation *op,
                                          mlir::Type elementType);
std::vector<fb::AxisRef> getAxes(llvm::ArrayRef<sharding::AxisRef> axes);
/// The dims of the global tensor `type`.
std::vector<std::unique_ptr<fb::DimT>> getDims(mlir::RankedTensorType type);
/// The plan's reference to `buffer`; `axes` is the number of its axes in the
/// plan.
std::unique_ptr<fb::BufferRef> getReference(rank::BufferAttr buffer,
                                            uint32_t axes = 0);
/// The reference to an argument or a constant, which are never a device's
/// block.
inline std::unique_ptr<fb::BufferRef> getReference(mlir::Value value) {
  return getReference(rank::getBuffer(value));
}

/// Writes the commands, groups and reasons of one program.
class CommandWriter {
public:
  CommandWriter(fb::ProgramT &program, const target::CompiledKernels &kernels,
                const overlap::Durations &durations)
      : program(program), kernels(kernels), durations(durations) {
    for (auto [i, kernel] : llvm::enumerate(kernels.kernels))
      kernelNumbers[kernel.symbol] = i;
  }

  /// Appends the command of an op; segments are not included.
  mlir::LogicalResult
  write(mlir::Operation &op,
        std::vector<std::unique_ptr<fb::CommandT>> &commands);
  uint32_t getGroup(rank::AxesAttr axes);
  /// The number of communication queues of the commands that were written.
  uint32_t countQueues() const { return queues.countCommunication(); }
  /// The reference to a buffer that may be a device's block.
  std::unique_ptr<fb::BufferRef> refer(rank::BufferAttr buffer);
  std::unique_ptr<fb::BufferRef> refer(mlir::Value value) {
    return refer(rank::getBuffer(value));
  }

private:
  fb::Phase getPhase(mlir::Operation *op);
  mlir::LogicalResult writeLaunch(rank::LaunchOp op, fb::CommandT &command);
  mlir::LogicalResult writeCall(rank::LibraryCallOp op, fb::CommandT &command);
  mlir::LogicalResult writeLoop(rank::LoopOp op, fb::CommandT &command);
  void writeCopy(mlir::Operation *op, fb::CommandT &command);
  mlir::LogicalResult writeCollective(rank::CollectiveOp op,
                                      fb::CommandT &command);
  /// Fills in a `Body`, Send or Receive.
  template <typename Body, typename Op>
  Body writeTransfer(Op op);
  uint32_t writeReason(std::optional<sharding::ReasonAttr> why,
                       uint64_t sentBytes);

  fb::ProgramT &program;
  const target::CompiledKernels &kernels;
  const overlap::Durations &durations;
  overlap::Queues queues;
  std::map<std::string, uint32_t> kernelNumbers;
  mlir::SymbolTableCollection kernelOps;
  llvm::DenseMap<mlir::Attribute, uint32_t> groups;
  llvm::DenseMap<mlir::Value, fb::Phase> phases;
  /// Requests of the started collectives, from 1.
  llvm::DenseMap<mlir::Operation *, uint32_t> requests;
};

/// Fills in the plan's stored tensors, and the arguments of its programs, which
/// correspond to `functions`. `isStep`: inputs have a leading microbatch dim.
mlir::LogicalResult writeArguments(llvm::ArrayRef<mlir::func::FuncOp> functions,
                                   bool isStep, fb::PlanT &plan);

} // namespace polyrank::plan
