// Finds the stage of each value of a function from the data flow.

#pragma once

#include "dialects/graph/Symbols.h"
#include "dialects/pipeline/Pipeline.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace polyrank::stages {

/// The stages of a function's values. A parameter and its optimizer state are
/// on the stage that its `graph.parameter` names; an op's results are on the
/// stage of its operands. A value that depends on no value of any stage has no
/// stage: each stage that needs it computes it.
class StageFlow {
public:
  explicit StageFlow(mlir::FunctionOpInterface function);

  /// Returns nullopt for a value that every stage has.
  std::optional<int64_t> getStage(mlir::Value value) const {
    auto found = stages.find(value);
    return found == stages.end() ? std::nullopt
                                 : std::optional<int64_t>(found->second);
  }
  /// The stage of the op's results, or of its operands if it has no results.
  std::optional<int64_t> getStage(mlir::Operation *op) const;
  /// Two operands of the op that are on different stages, if there are such
  /// operands and the op is not one that moves values between stages.
  std::optional<std::pair<mlir::Value, mlir::Value>>
  findConflict(mlir::Operation *op) const;

  /// Recomputes the stage of an op after its operands have changed.
  void update(mlir::Operation *op);
  /// Must be called before an op is erased, since a new op may get its address.
  void forget(mlir::Operation *op) {
    for (mlir::Value result : op->getResults())
      set(result, std::nullopt);
  }

  /// The stage of an argument: that of the parameter that its role names.
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
