// Loss scaling, and steps that are skipped since a gradient is not finite.

#pragma once

#include "compiler/training/Call.h"
#include "dialects/graph/Parts.h"

namespace polyrank::training {

/// --loss-scale and --skip-nonfinite.
///
/// The backward starts from the loss times the scale, so that small gradients
/// do not vanish in a narrow float; the sum of each gradient over microbatches
/// and ranks is divided by the scale again, before its norm is computed. All
/// scales are powers of two, so no bit of a gradient depends on the scale,
/// except where a value overflows or is denormal.
///
/// One number decides for all ranks whether the update is applied. A skipped
/// step keeps all parameters and states; only the number of steps goes on.
///
/// A dynamic scale is lowered by the factor `backoff` if a gradient is not
/// finite, and raised by `growth` after `window` applied updates in a row, as
/// in torch.amp.GradScaler. With a hysteresis of n, the first n - 1 steps that
/// are not finite since the scale was raised last (or since the start) do not
/// lower it, as in Megatron-LM's DynamicGradScaler and DeepSpeed's
/// DynamicLossScaler. If a gradient is not finite when the scale would be
/// lowered and is at its minimum, the step is neither applied nor skipped: as
/// in DeepSpeed, the run ends.
class LossScale {
public:
  /// The values of the step's output `skipped`.
  enum Outcome { Applied = 0, Skipped = 1, Stuck = 2 };

  /// The largest scale: its inverse is a normal f32. A scale that has grown to
  /// it stays there.
  static constexpr double largest = 0x1p126;

  /// Parses --loss-scale (empty: no scale) and --skip-nonfinite; an error says
  /// what is wrong with them.
  static mlir::FailureOr<LossScale>
  parse(llvm::StringRef text, bool skipNonfinite, EmitError emitError);

  /// True if a step is skipped when a gradient is not finite.
  bool skips() const { return skipping; }

  /// A state of the step as a whole: one number.
  struct State {
    llvm::StringRef name;
    mlir::Type type;
    double init = 0;
  };
  /// The states in their order; none if no step is skipped.
  llvm::SmallVector<State> getStates(mlir::MLIRContext *context) const;
  /// Sets the values of the states before the step.
  void setStates(mlir::ValueRange values);

  /// The factor of the backward's first gradient that is known when the program
  /// is compiled.
  double getFixedFactor() const { return dynamic ? 1 : init; }
  /// The backward's first gradient times a dynamic scale.
  mlir::Value scaleSeed(graph::Parts &parts, mlir::Value seed) const;
  /// A gradient divided by the scale.
  mlir::Value unscale(graph::Parts &parts, mlir::Value gradient) const;

  /// Builds the decision from `norm`, which is finite exactly if the update is
  /// to be applied, and the next values of the states.
  void buildDecision(graph::Parts &parts, mlir::Value norm);

  /// The number of updates applied before this step, an i64 scalar.
  mlir::Value getUpdates() const { return updates; }

  /// `next`, or `old` if the step is skipped. Both are the same if no step is
  /// skipped at all.
  mlir::Value keep(graph::Parts &parts, mlir::Value next,
                   mlir::Value old) const;
  /// The same for a parameter. In a step that ends the run, the elements whose
  /// `gradient` is not finite become NaN, so that the run can name them.
  mlir::Value keepParameter(graph::Parts &parts, mlir::Value next,
                            mlir::Value old, mlir::Value gradient) const;

  /// The states after the step.
  llvm::ArrayRef<mlir::Value> getNextStates() const { return nextStates; }
  /// Names and values of the step's outputs: the scale of this step, if it is
  /// dynamic, the outcome, and the number of steps that were not applied.
  llvm::ArrayRef<std::pair<llvm::StringRef, mlir::Value>> getOutputs() const {
    return outputs;
  }

private:
  mlir::LogicalResult parseDynamic(llvm::StringRef text, EmitError emitError);
  void buildNextScale(graph::Parts &parts);

  bool dynamic = false, skipping = false;
  double init = 1, growth = 2, backoff = 0.5, min = 1;
  int64_t window = 2000, hysteresis = 1;

  // Scalars of the step. `scale` is f32, the others of the states are i64.
  mlir::Value updates, skippedSteps, scale, inARow, notFinite;
  mlir::Value applies; // a boolean
  mlir::Value outcome; // f32
  llvm::SmallVector<mlir::Value> nextStates;
  llvm::SmallVector<std::pair<llvm::StringRef, mlir::Value>> outputs;
};

} // namespace polyrank::training
