// --optimizer, --group and --lr-schedule: the update rule, options and learning
// rate of each parameter.

#pragma once

#include "compiler/training/UpdateRule.h"
#include "dialects/graph/Boundary.h"

namespace polyrank::training {

class Optimizer {
public:
  /// Parses --optimizer. Passes.td lists the optimizers and their options.
  /// Positional arguments are PyTorch's; case and `torch.optim.` are ignored.
  static mlir::FailureOr<Optimizer> parse(llvm::StringRef text,
                                          EmitError emitError);

  /// Adds `PATTERN: KEY=VALUE, ..`: other options for the parameters with
  /// matching names (PyTorch's parameter groups). `lr=x0.1` is relative to the
  /// optimizer's learning rate.
  mlir::LogicalResult addGroup(llvm::StringRef text, EmitError emitError);

  /// Sets the learning-rate schedule of all groups; see support/LearningRate.h.
  mlir::LogicalResult setSchedule(llvm::StringRef text, EmitError emitError);

  /// The names of a stored tensor, several if it is tied.
  struct Names {
    llvm::SmallVector<std::string> names;
    bool trainable = false;
  };
  /// Fails if a pattern matches no trainable parameter, or if two groups match
  /// the same one.
  mlir::LogicalResult checkPatterns(llvm::ArrayRef<Names> parameters,
                                    EmitError emitError) const;

  /// Emits a remark on the parameters of each group.
  void describeGroups(llvm::ArrayRef<Names> parameters,
                      EmitError emitRemark) const;

  // The next three: properties of a parameter, found by its names.

  llvm::SmallVector<OptimizerState> getStates(graph::ParameterOp stored) const {
    return find(getNames(stored)).rule->getStates(stored);
  }
  /// The name of the parameter's update rule, as UpdateRule::getNameFor has it.
  llvm::StringRef getNameFor(graph::ParameterOp stored) const {
    return find(getNames(stored)).rule->getNameFor(stored);
  }
  graph::LearningRateAttr
  getLearningRate(mlir::MLIRContext *context,
                  llvm::ArrayRef<std::string> names) const {
    return getLearningRate(context, find(names));
  }

  /// Builds the scalars that all parameters share. `step` is the number of
  /// steps done before this one, an i64 scalar; `rates` are the learning rates
  /// of the groups in it, f64 scalars.
  void
  buildScalars(graph::Parts &parts, mlir::Value step,
               const llvm::SmallDenseMap<mlir::Attribute, mlir::Value> &rates);

  /// Builds the next values of the views of one stored tensor, and of the
  /// states of the whole tensor.
  mlir::LogicalResult
  buildUpdates(mlir::OpBuilder &builder, llvm::ArrayRef<std::string> names,
               llvm::MutableArrayRef<UpdatedTensor> views,
               llvm::MutableArrayRef<mlir::Value> states) const;

private:
  /// Parameters with the same update rule and options.
  struct Group {
    std::string pattern, text;
    std::unique_ptr<UpdateRule> rule;
    /// The factor on the optimizer's learning rate; nullopt: the rule has its
    /// own rate.
    std::optional<double> scale = 1;
  };

  /// The group whose pattern matches one of the names, or `rest`.
  const Group &find(llvm::ArrayRef<std::string> names) const;
  graph::LearningRateAttr getLearningRate(mlir::MLIRContext *context,
                                          const Group &group) const;
  /// Returns true if weight decay applies to a parameter with these names.
  bool decays(llvm::ArrayRef<std::string> names) const;

  /// The optimizer's call, with a name for each argument, and without arguments
  /// that are no options of the update.
  Call call;
  Group rest; // parameters that no pattern matches
  llvm::SmallVector<Group> groups;
  std::string schedule;
  /// Globs over names of parameters that decay; empty: all decay.
  llvm::SmallVector<std::string> decaying;
};

} // namespace polyrank::training
