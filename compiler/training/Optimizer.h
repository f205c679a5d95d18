// --optimizer: which update, of which parameters, with which options.

#pragma once

#include "compiler/training/UpdateRule.h"

namespace polyrank::training {

/// Passes.td lists the optimizers and their options.
class Optimizer {
public:
  /// Positional arguments are PyTorch's; case and `torch.optim.` do not matter.
  static mlir::FailureOr<Optimizer> parse(llvm::StringRef text,
                                          EmitError emitError);

  /// Of each parameter.
  llvm::SmallVector<OptimizerState> getStates() const {
    return rule->getStates();
  }

  /// Builds what is computed once for all parameters from the number of steps
  /// done before this one, an i64 scalar.
  void buildScalars(graph::Parts &parts, mlir::Value step);

  /// The next values of the views of one stored tensor, which has several
  /// names where it is tied.
  void buildUpdates(mlir::OpBuilder &builder,
                    llvm::ArrayRef<std::string> names,
                    llvm::MutableArrayRef<UpdatedTensor> views) const;

  /// Fails where a `decay` pattern matches none of the names.
  mlir::LogicalResult checkPatterns(llvm::ArrayRef<std::string> names,
                                    EmitError emitError) const;

private:
  /// By any of a parameter's names.
  bool decays(llvm::ArrayRef<std::string> names) const;

  std::unique_ptr<UpdateRule> rule;
  /// Globs over the names that decay; none: all do.
  llvm::SmallVector<std::string> patterns;
};

} // namespace polyrank::training
