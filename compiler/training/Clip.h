// Clipping of gradients.

#pragma once

#include "compiler/training/Call.h"
#include "dialects/graph/Parts.h"

namespace polyrank::training {

/// Clips like `torch.nn.utils.clip_grad_norm_` or `clip_grad_value_`; at most
/// one of the two.
struct Clip {
  enum class Norm { Two, Infinity };

  /// The largest norm of all gradients together; 0: no limit.
  double norm = 0;
  Norm kind = Norm::Two;
  /// The largest absolute value of an element; 0: no limit.
  double value = 0;

  /// Parses the options; an error says what is wrong with them.
  static mlir::FailureOr<Clip> parse(double norm, llvm::StringRef kind,
                                     double value, EmitError emitError);

  /// The scale that `norm` requires for `gradients`, which are to be multiplied
  /// by the scalar `factor` (null: by 1).
  struct Scale {
    /// The scalar by which to multiply them instead; null: 1.
    mlir::Value factor;
    /// Their norm before clipping; null if it is not needed.
    mlir::Value norm;
    /// The norm of `gradients` themselves, without the factor; null if there is
    /// no norm.
    mlir::Value unscaled = {};
  };
  Scale buildScale(graph::Parts &parts, llvm::ArrayRef<mlir::Value> gradients,
                   mlir::Value factor) const;

  /// A scaled gradient, with its elements limited to `value`.
  mlir::Value limit(graph::Parts &parts, mlir::Value gradient) const;
};

/// The norm of all elements of all values, a scalar: as precise as the most
/// precise of them, and at least f32.
mlir::Value buildNorm(graph::Parts &parts, Clip::Norm kind,
                      llvm::ArrayRef<mlir::Value> values);

} // namespace polyrank::training
