// Optimizers: options as text, updates as ops.

#pragma once

#include "compiler/training/Call.h"
#include "dialects/graph/Parts.h"

namespace polyrank::training {

/// What torch.optim's SGD, Adam, AdamW, Adagrad and RMSprop (2.x) compute, and
/// Lion (Chen et al., Symbolic Discovery of Optimization Algorithms, 2023,
/// program 1). Passes.td lists the options.
class Optimizer {
public:
  /// Of each parameter: PyTorch's name, and what it begins with.
  struct State {
    llvm::StringRef name;
    double init = 0;
  };

  /// Positional arguments are PyTorch's; case and `torch.optim.` do not matter.
  static mlir::FailureOr<Optimizer> parse(llvm::StringRef text,
                                          EmitError emitError);

  llvm::ArrayRef<State> getStates() const { return states; }

  /// Builds what is computed once for all parameters from the number of steps
  /// done before this one, an i64 scalar.
  void buildScalars(graph::Parts &parts, mlir::Value step);

  /// The new value of the parameter, which has several names where it is tied;
  /// `states` are replaced by theirs. The gradient has the parameter's type.
  mlir::Value buildUpdate(graph::Parts &parts,
                          llvm::ArrayRef<std::string> names,
                          mlir::Value parameter, mlir::Value gradient,
                          llvm::MutableArrayRef<mlir::Value> states) const;

  /// Fails where a `decay` pattern matches none of the names.
  mlir::LogicalResult checkPatterns(llvm::ArrayRef<std::string> names,
                                    EmitError emitError) const;

private:
  enum class Kind { Sgd, Adam, AdamW, Adagrad, RmsProp, Lion };

  /// Reads the options of this kind, and says which states there are.
  void takeOptions(NamedArguments &named);
  /// PyTorch's conditions.
  mlir::LogicalResult check(llvm::StringRef text, EmitError emitError) const;
  /// By any of a parameter's names.
  bool decays(llvm::ArrayRef<std::string> names) const;
  mlir::Value buildSgd(graph::Parts &parts, double decay, mlir::Value parameter,
                       mlir::Value gradient,
                       llvm::MutableArrayRef<mlir::Value> states) const;
  mlir::Value buildAdam(graph::Parts &parts, double decay,
                        mlir::Value parameter, mlir::Value gradient,
                        llvm::MutableArrayRef<mlir::Value> states) const;
  mlir::Value buildAdagrad(graph::Parts &parts, mlir::Value parameter,
                           mlir::Value gradient,
                           llvm::MutableArrayRef<mlir::Value> states) const;
  mlir::Value buildRmsProp(graph::Parts &parts, mlir::Value parameter,
                           mlir::Value gradient,
                           llvm::MutableArrayRef<mlir::Value> states) const;
  mlir::Value buildLion(graph::Parts &parts, double decay,
                        mlir::Value parameter, mlir::Value gradient,
                        llvm::MutableArrayRef<mlir::Value> states) const;

  Kind kind = Kind::AdamW;
  double learningRate = 1e-3, weightDecay = 0;
  double momentum = 0, dampening = 0;
  bool nesterov = false, amsgrad = false, maximize = false;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double rateDecay = 0, firstSum = 0; // of adagrad
  double alpha = 0.99;                // of rmsprop
  bool centered = false;
  /// Globs over the names that decay; none: all do.
  llvm::SmallVector<std::string> patterns;
  llvm::SmallVector<State> states;

  // f64 scalars of this step.
  mlir::Value stepSize, correction, freshness;
};

} // namespace polyrank::training
