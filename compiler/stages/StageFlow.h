// On which stage each value of a function is, as follows from the data.

#pragma once

#include "dialects/graph/Symbols.h"
#include "dialects/pipeline/Pipeline.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace polyrank::stages {

/// The stages of a function's values. A parameter, and what its optimizer keeps
/// of it, is on the stage that its `graph.parameter` names; what an op computes
/// is where its operands are. What depends on no value of a stage is on none:
/// each stage that needs it has it.
class StageFlow {
public:
  explicit StageFlow(mlir::FunctionOpInterface function);

  /// nullopt of what every stage has.
  std::optional<int64_t> getStage(mlir::Value value) const {
    auto found = stages.find(value);
    return found == stages.end() ? std::nullopt
                                 : std::optional<int64_t>(found->second);
  }
  /// Where the op's results are; of an op without results its operands.
  std::optional<int64_t> getStage(mlir::Operation *op) const;
  /// Two operands of the op that are on different stages, and nothing takes
  /// them to one.
  std::optional<std::pair<mlir::Value, mlir::Value>>
  findConflict(mlir::Operation *op) const;

  /// Looks at an op again whose operands have changed.
  void update(mlir::Operation *op);
  /// To be called before an op is erased: another one may get its address.
  void forget(mlir::Operation *op) {
    for (mlir::Value result : op->getResults())
      set(result, std::nullopt);
  }

  /// Of an argument: that of the parameter that its role names.
  static std::optional<int64_t>
  getStageOfArgument(mlir::FunctionOpInterface function, unsigned number,
                     const graph::Symbols &symbols);

private:
  void visit(mlir::Block &block);
  void visit(graph::MicrobatchesOp op);
  void set(mlir::Value value, std::optional<int64_t> stage) {
    if (stage)
      stages[value] = *stage;
    else
      stages.erase(value);
  }

  llvm::DenseMap<mlir::Value, int64_t> stages;
};

/// Emits an error at the first op whose operands are on different stages.
mlir::LogicalResult verifyStages(mlir::FunctionOpInterface function);

} // namespace polyrank::stages
