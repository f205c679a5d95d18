// How an optimizer updates a tensor, as ops.

#pragma once

#include <memory>
#include <optional>

#include "compiler/training/Call.h"
#include "dialects/graph/Parts.h"

namespace polyrank::training {

/// What an optimizer keeps of a stored tensor: PyTorch's name, and what each
/// element begins with.
struct OptimizerState {
  llvm::StringRef name;
  double init = 0;
  /// Of one that the stored tensor has as a whole; none: each of its views has
  /// one of its own shape.
  std::optional<llvm::SmallVector<int64_t>> shape = std::nullopt;
};

/// A logical parameter on its way through its update. The gradient has the
/// parameter's type.
struct UpdatedTensor {
  /// Whose names are that of the stored tensor and its aliases.
  graph::ParameterOp stored;
  /// Where it lies in the stored tensor; null: it is all of it, in order.
  mlir::DenseI64ArrayAttr view;
  mlir::Location location;
  bool decays = true;
  mlir::Value parameter, gradient;
  llvm::SmallVector<mlir::Value> states; // replaced by the next ones
};

/// One optimizer with its options.
class UpdateRule {
public:
  virtual ~UpdateRule() = default;

  /// The rule of this name (`adamw`), with PyTorch's defaults; null: there is
  /// none.
  static std::unique_ptr<UpdateRule> create(llvm::StringRef name);
  static llvm::ArrayRef<llvm::StringRef> getNames();

  /// PyTorch's positional arguments behind the parameters.
  llvm::SmallVector<llvm::StringRef> getOrder() const;
  /// Reads the options, and leaves those that are not given.
  void takeOptions(NamedArguments &named);
  /// Those that say how fast and with which moments, without `maximize`.
  void takeRates(NamedArguments &named);
  /// PyTorch's conditions on the options: what is wrong, or "".
  std::string check() const;

  virtual llvm::SmallVector<OptimizerState>
  getStates(graph::ParameterOp stored) const {
    return {};
  }
  /// The name of the rule by which the tensor is updated, where that depends on
  /// the tensor; else "".
  virtual llvm::StringRef getNameFor(graph::ParameterOp stored) const {
    return "";
  }
  /// Patterns over names that are among the options, with the option's name;
  /// each must match something.
  virtual std::pair<llvm::StringRef, llvm::ArrayRef<std::string>>
  getPatterns() const {
    return {};
  }

  /// Builds what is computed once for all parameters: from the number of steps
  /// done before this one, an i64 scalar, and the learning rate, an f64 scalar.
  void buildScalars(graph::Parts &parts, mlir::Value step,
                    mlir::Value learningRate);
  /// The next values of the views of one stored tensor, of their states, and of
  /// `states`, which the tensor has as a whole. Fails, with an error, where the
  /// rule cannot be applied to it.
  mlir::LogicalResult
  buildUpdates(mlir::OpBuilder &builder,
               llvm::MutableArrayRef<UpdatedTensor> views,
               llvm::MutableArrayRef<mlir::Value> states) const;

  double learningRate = 1e-3, weightDecay = 0;

protected:
  virtual llvm::ArrayRef<llvm::StringRef> getOwnOrder() const = 0;
  virtual void takeOwnOptions(NamedArguments &named) = 0;
  virtual std::string checkOwn() const { return ""; }
  virtual void buildOwnScalars(graph::Parts &parts, mlir::Value step) {}
  /// Of views that have a gradient, with the sign in which it is followed.
  virtual mlir::LogicalResult
  buildOwnUpdates(mlir::OpBuilder &builder,
                  llvm::MutableArrayRef<UpdatedTensor> views,
                  llvm::MutableArrayRef<mlir::Value> states) const = 0;

  double getDecay(const UpdatedTensor &tensor) const {
    return tensor.decays ? weightDecay : 0;
  }
  /// The number of this step, from 1: an f64 scalar.
  static mlir::Value countSteps(graph::Parts &parts, mlir::Value step);
  /// 1 - beta^t, the share of its values in a moving mean that began at zero:
  /// in f64, as PyTorch computes it, since it cancels for beta near 1.
  static mlir::Value buildShare(graph::Parts &parts, double beta,
                                mlir::Value t);
  /// A scalar as f64.
  static mlir::Value toDouble(graph::Parts &parts, mlir::Value scalar);
  /// `x` times an f64 scalar.
  static mlir::Value scale(graph::Parts &parts, mlir::Value x,
                           mlir::Value scalar);
  /// The gradient, with weight decay as a part of it (L2).
  mlir::Value addDecay(graph::Parts &parts, const UpdatedTensor &tensor) const;
  /// The parameter after weight decay apart from the gradient (AdamW's).
  mlir::Value applyDecay(graph::Parts &parts,
                         const UpdatedTensor &tensor) const;

  // f64 scalars of this step.
  mlir::Value rate;

private:
  bool maximize = false;
  mlir::Value keep; // 1 - rate * weightDecay, where anything decays so
};

/// A rule that updates each element by its own gradient and state.
class ElementwiseRule : public UpdateRule {
  mlir::LogicalResult
  buildOwnUpdates(mlir::OpBuilder &builder,
                  llvm::MutableArrayRef<UpdatedTensor> views,
                  llvm::MutableArrayRef<mlir::Value> states) const override;
  /// The next value of the parameter.
  virtual mlir::Value buildUpdate(graph::Parts &parts,
                                  UpdatedTensor &tensor) const = 0;
};

/// Each in a file of its own.
/// @{
std::unique_ptr<UpdateRule> createAdafactor();
std::unique_ptr<UpdateRule> createLamb();
std::unique_ptr<UpdateRule> createMuon();
/// @}

/// The names of a stored tensor: several where it is tied.
llvm::SmallVector<std::string> getNames(graph::ParameterOp stored);

/// Whether one of the globs matches one of the names.
bool matchesGlobs(llvm::ArrayRef<std::string> patterns,
                  llvm::ArrayRef<std::string> names);

/// An f64 scalar.
mlir::Value buildNumber(graph::Parts &parts, double value);

/// Whether it is a rate of a moving mean.
inline bool isShare(double value) { return value >= 0 && value < 1; }

} // namespace polyrank::training
