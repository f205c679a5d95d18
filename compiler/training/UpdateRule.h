// The update rules of optimizers, built as ops.

#pragma once

#include <memory>
#include <optional>

#include "compiler/training/Call.h"
#include "dialects/graph/Parts.h"

namespace polyrank::training {

/// State that an optimizer keeps of a stored tensor: PyTorch's name, and the
/// initial value of each element.
struct OptimizerState {
  llvm::StringRef name;
  double init = 0;
  /// The shape, if the stored tensor has this state as a whole; nullopt: each
  /// of its views has one of its own shape.
  std::optional<llvm::SmallVector<int64_t>> shape = std::nullopt;
};

/// A logical parameter while its update is built. The gradient has the
/// parameter's type.
struct UpdatedTensor {
  /// Its names are those of the stored tensor and its aliases.
  graph::ParameterOp stored;
  /// Where the view lies in the stored tensor; null: it is the whole tensor, in
  /// order.
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

  /// The rule of this name (`adamw`), with PyTorch's defaults; null if there is
  /// none.
  static std::unique_ptr<UpdateRule> create(llvm::StringRef name);
  static llvm::ArrayRef<llvm::StringRef> getNames();

  /// PyTorch's positional arguments after the parameters.
  llvm::SmallVector<llvm::StringRef> getOrder() const;
  /// Reads the given options; the others keep their values.
  void takeOptions(NamedArguments &named);
  /// Reads only the options of rate, decay and moments, without `maximize`.
  void takeRates(NamedArguments &named);
  /// Checks PyTorch's conditions on the options; returns what is wrong, or "".
  std::string check() const;

  virtual llvm::SmallVector<OptimizerState>
  getStates(graph::ParameterOp stored) const {
    return {};
  }
  /// The name of the rule that updates the tensor, if that depends on the
  /// tensor; else "".
  virtual llvm::StringRef getNameFor(graph::ParameterOp stored) const {
    return "";
  }
  /// Option name and patterns of an option that holds patterns over names; each
  /// pattern must match something.
  virtual std::pair<llvm::StringRef, llvm::ArrayRef<std::string>>
  getPatterns() const {
    return {};
  }

  /// Builds the scalars that all parameters share. `step` is the number of
  /// steps done before this one, an i64 scalar; the learning rate is an f64
  /// scalar.
  void buildScalars(graph::Parts &parts, mlir::Value step,
                    mlir::Value learningRate);
  /// Builds the next values of the views of one stored tensor, of their states,
  /// and of `states`, which belong to the whole tensor. Emits an error if the
  /// rule does not apply to it.
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
  /// Updates views that have a gradient, whose sign is such that the rule
  /// descends along it.
  virtual mlir::LogicalResult
  buildOwnUpdates(mlir::OpBuilder &builder,
                  llvm::MutableArrayRef<UpdatedTensor> views,
                  llvm::MutableArrayRef<mlir::Value> states) const = 0;

  double getDecay(const UpdatedTensor &tensor) const {
    return tensor.decays ? weightDecay : 0;
  }
  /// The number of this step, counted from 1: an f64 scalar.
  static mlir::Value countSteps(graph::Parts &parts, mlir::Value step);
  /// 1 - beta^t, the total weight of the values in a moving average that began
  /// at zero. Computed in f64, like PyTorch, since it cancels for beta near 1.
  static mlir::Value buildShare(graph::Parts &parts, double beta,
                                mlir::Value t);
  /// A scalar as f64.
  static mlir::Value toDouble(graph::Parts &parts, mlir::Value scalar);
  /// `x` times an f64 scalar.
  static mlir::Value scale(graph::Parts &parts, mlir::Value x,
                           mlir::Value scalar);
  /// The gradient with weight decay added to it (L2).
  mlir::Value addDecay(graph::Parts &parts, const UpdatedTensor &tensor) const;
  /// The parameter after weight decay that is decoupled from the gradient
  /// (AdamW's).
  mlir::Value applyDecay(graph::Parts &parts,
                         const UpdatedTensor &tensor) const;

  // f64 scalars of this step.
  mlir::Value rate;

private:
  bool maximize = false;
  mlir::Value keep; // 1 - rate * weightDecay; null if nothing decays so
};

/// A rule that updates each element by its own gradient and state alone.
class ElementwiseRule : public UpdateRule {
  mlir::LogicalResult
  buildOwnUpdates(mlir::OpBuilder &builder,
                  llvm::MutableArrayRef<UpdatedTensor> views,
                  llvm::MutableArrayRef<mlir::Value> states) const override;
  /// The next value of the parameter.
  virtual mlir::Value buildUpdate(graph::Parts &parts,
                                  UpdatedTensor &tensor) const = 0;
};

/// These are each in a file of their own.
/// @{
std::unique_ptr<UpdateRule> createAdafactor();
std::unique_ptr<UpdateRule> createLamb();
std::unique_ptr<UpdateRule> createMuon();
/// @}

/// The names of a stored tensor: several if it is tied.
llvm::SmallVector<std::string> getNames(graph::ParameterOp stored);

/// Returns true if one of the globs matches one of the names.
bool matchesGlobs(llvm::ArrayRef<std::string> patterns,
                  llvm::ArrayRef<std::string> names);

/// An f64 scalar.
mlir::Value buildNumber(graph::Parts &parts, double value);

/// Returns true if the value is a valid decay of a moving average.
inline bool isShare(double value) { return value >= 0 && value < 1; }

} // namespace polyrank::training
