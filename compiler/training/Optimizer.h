// --optimizer, --group and --lr-schedule: which update, of which parameters,
// with which options and learning rate.

#pragma once

#include "compiler/training/UpdateRule.h"
#include "dialects/graph/Boundary.h"

namespace polyrank::training {

class Optimizer {
public:
  /// Passes.td lists the optimizers and their options. Positional arguments are
  /// PyTorch's; case and `torch.optim.` do not matter.
  static mlir::FailureOr<Optimizer> parse(llvm::StringRef text,
                                          EmitError emitError);

  /// `PATTERN: KEY=VALUE, ..`: what is otherwise of the parameters with
  /// matching names (PyTorch's parameter groups). `lr=x0.1` is relative to the
  /// optimizer's.
  mlir::LogicalResult addGroup(llvm::StringRef text, EmitError emitError);

  /// Of all groups; see support/LearningRate.h.
  mlir::LogicalResult setSchedule(llvm::StringRef text, EmitError emitError);

  /// The names of a stored tensor, several where it is tied.
  struct Names {
    llvm::SmallVector<std::string> names;
    bool trainable = false;
  };
  /// Fails where a pattern names no trainable parameter, and where two groups
  /// name the same one.
  mlir::LogicalResult checkPatterns(llvm::ArrayRef<Names> parameters,
                                    EmitError emitError) const;

  /// Says which parameters each group has.
  void describeGroups(llvm::ArrayRef<Names> parameters,
                      EmitError emitRemark) const;

  // Of a parameter, by its names.

  llvm::SmallVector<OptimizerState> getStates(graph::ParameterOp stored) const {
    return find(getNames(stored)).rule->getStates(stored);
  }
  /// As that of the rule.
  llvm::StringRef getNameFor(graph::ParameterOp stored) const {
    return find(getNames(stored)).rule->getNameFor(stored);
  }
  graph::LearningRateAttr
  getLearningRate(mlir::MLIRContext *context,
                  llvm::ArrayRef<std::string> names) const {
    return getLearningRate(context, find(names));
  }

  /// Builds what is computed once for all parameters from the number of steps
  /// done before this one, an i64 scalar, and the learning rates, f64 scalars:
  /// of groups that have one among `rates`.
  void
  buildScalars(graph::Parts &parts, mlir::Value step,
               const llvm::SmallDenseMap<mlir::Attribute, mlir::Value> &rates);

  /// The next values of the views of one stored tensor, and of what is kept of
  /// it as a whole.
  mlir::LogicalResult
  buildUpdates(mlir::OpBuilder &builder, llvm::ArrayRef<std::string> names,
               llvm::MutableArrayRef<UpdatedTensor> views,
               llvm::MutableArrayRef<mlir::Value> states) const;

private:
  /// The parameters that are updated in one way.
  struct Group {
    std::string pattern, text;
    std::unique_ptr<UpdateRule> rule;
    /// Of the optimizer's learning rate; none: the rule's is its own.
    std::optional<double> scale = 1;
  };

  /// The group whose pattern one of the names matches, or that of the rest.
  const Group &find(llvm::ArrayRef<std::string> names) const;
  graph::LearningRateAttr getLearningRate(mlir::MLIRContext *context,
                                          const Group &group) const;
  /// By any of a parameter's names.
  bool decays(llvm::ArrayRef<std::string> names) const;

  /// With a name for each argument, and without those that are no options of
  /// the update.
  Call call;
  Group rest; // what no pattern names
  llvm::SmallVector<Group> groups;
  std::string schedule;
  /// Globs over the names that decay; none: all do.
  llvm::SmallVector<std::string> decaying;
};

} // namespace polyrank::training
