// What ranks compute together: one function, or one for each place.

#pragma once

#include "dialects/graph/Tensor.h"
#include "dialects/rank/Programs.h"

namespace polyrank::evaluate {

/// Argument or result `number` of a function.
struct BoundaryValue {
  mlir::func::FuncOp function;
  unsigned number = 0;
};

/// Functions that different ranks run at the same time, as one: its arguments
/// and results are theirs, by the number that each has globally
/// (`rank.number`). Functions may share some.
class JointFunction {
public:
  /// What the functions of a module are: each without a place by itself, and
  /// all with one together. Emits an error where numbers are missing.
  static mlir::FailureOr<std::vector<JointFunction>>
  allOf(mlir::ModuleOp module);
  /// One that all ranks run.
  JointFunction(mlir::func::FuncOp function);

  llvm::ArrayRef<mlir::func::FuncOp> getFunctions() const { return functions; }
  /// Whether its functions have places.
  bool isPlaced() const { return !programs.empty(); }
  const rank::Programs &getPrograms() const { return programs; }
  /// `@step`, or `@step_0, @step_1`.
  std::string getName() const;
  /// Of the first function that has it, by number.
  llvm::ArrayRef<BoundaryValue> getArguments() const { return arguments; }
  llvm::ArrayRef<BoundaryValue> getResults() const { return results; }
  /// The number of a function's argument or result.
  int64_t getNumber(const BoundaryValue &value, bool isResult) const;

private:
  JointFunction() = default;
  mlir::LogicalResult number(bool isResult);

  rank::Programs programs;
  llvm::SmallVector<mlir::func::FuncOp> functions;
  llvm::SmallVector<BoundaryValue> arguments, results;
};

} // namespace polyrank::evaluate
