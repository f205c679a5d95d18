// The values of a step of which some get a narrower type of floats, and their
// conversions.

#pragma once

#include "dialects/graph/ElementTypes.h"
#include "dialects/graph/Graph.h"

namespace polyrank::training {

/// Narrows values of f32 and builds the conversions that their users need, each
/// once, where the value is defined.
class Conversions {
public:
  /// `low` is bf16 or f16.
  explicit Conversions(mlir::FloatType low) : low(low) {}

  mlir::FloatType getLow() const { return low; }
  /// f32, in which low values are added.
  mlir::Type getWide() const { return graph::accumulatorOf(low); }
  /// Returns true if this object made the value low. Narrow floats of the
  /// program's own stay what they are.
  bool isLow(mlir::Value value) const { return lows.contains(value); }

  /// `value`, which is f32 or low, in the low type. If `value` is a parameter
  /// of which only elements are moved, the parameter is converted and the moves
  /// are repeated, so that one conversion serves the whole step.
  mlir::Value inLow(mlir::Value value);
  /// `value` in f32, the type that it had before the step was rewritten, if it
  /// is low; otherwise `value` itself.
  mlir::Value inWide(mlir::Value value);

  /// Makes `value` low, and the op that computes it with it.
  void narrow(mlir::Value value);
  /// Rounds `value`, which is f32, where its users read it.
  void round(mlir::Value value);

  /// The parameter, or another argument of the step, of whose elements `value`
  /// consists, converted, in another order or repeated; null if it is computed.
  static mlir::BlockArgument getArgument(mlir::Value value);

private:
  mlir::Value convert(mlir::Value value, mlir::Type element);

  mlir::FloatType low;
  llvm::DenseSet<mlir::Value> lows;
  llvm::DenseMap<mlir::Value, mlir::Value> lowOf, wideOf;
};

} // namespace polyrank::training
