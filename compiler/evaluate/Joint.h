// The functions that ranks execute together: one for all, or one per place.

#pragma once

#include "dialects/graph/Tensor.h"
#include "dialects/rank/Programs.h"

namespace polyrank::evaluate {

/// Argument or result `number` of a function.
struct BoundaryValue {
  mlir::func::FuncOp function;
  unsigned number = 0;
};

/// Functions that different ranks run at the same time, seen as one function.
/// Its arguments and results are those of all functions, numbered by
/// `rank.number`; several functions may have the same one.
class JointFunction {
public:
  /// The joint functions of a module: each function without a place alone, and
  /// all functions with a place together. Emits an error if numbers are
  /// missing.
  static mlir::FailureOr<std::vector<JointFunction>>
  allOf(mlir::ModuleOp module);
  /// A function that all ranks run.
  JointFunction(mlir::func::FuncOp function);

  llvm::ArrayRef<mlir::func::FuncOp> getFunctions() const { return functions; }
  /// True if the functions have places.
  bool isPlaced() const { return !programs.empty(); }
  const rank::Programs &getPrograms() const { return programs; }
  /// `@step`, or `@step_0, @step_1`.
  std::string getName() const;
  /// For each number, the first function that has this argument or result.
  llvm::ArrayRef<BoundaryValue> getArguments() const { return arguments; }
  llvm::ArrayRef<BoundaryValue> getResults() const { return results; }
  /// The global number of a function's argument or result; -1 if it has none.
  int64_t getNumber(const BoundaryValue &value, bool isResult) const;

private:
  JointFunction() = default;
  mlir::LogicalResult number(bool isResult);

  rank::Programs programs;
  llvm::SmallVector<mlir::func::FuncOp> functions;
  llvm::SmallVector<BoundaryValue> arguments, results;
};

} // namespace polyrank::evaluate
