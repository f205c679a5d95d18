// Clipping of gradients.

#pragma once

#include "compiler/training/Call.h"
#include "dialects/graph/Parts.h"

namespace polyrank::training {

/// As `torch.nn.utils.clip_grad_norm_` and `clip_grad_value_` do; at most one
/// of them.
struct Clip {
  enum class Norm { Two, Infinity };

  /// The most that the norm of all gradients together may be; 0: whatever it
  /// is.
  double norm = 0;
  Norm kind = Norm::Two;
  /// The most that an element may be, either way; 0: whatever it is.
  double value = 0;

  /// Fails with what is wrong with the options.
  static mlir::FailureOr<Clip> parse(double norm, llvm::StringRef kind,
                                     double value, EmitError emitError);

  /// What `norm` asks for, of `gradients` that are to be multiplied by the
  /// scalar `factor` (null: by 1).
  struct Scale {
    /// The scalar to multiply them by instead; null: 1.
    mlir::Value factor;
    /// Their norm before clipping; null where it is not needed.
    mlir::Value norm;
  };
  Scale buildScale(graph::Parts &parts, llvm::ArrayRef<mlir::Value> gradients,
                   mlir::Value factor) const;

  /// A gradient, multiplied, with what `value` asks for.
  mlir::Value limit(graph::Parts &parts, mlir::Value gradient) const;
};

/// The norm of all elements of all values, a scalar: as precise as the most
/// precise of them, and no less than f32.
mlir::Value buildNorm(graph::Parts &parts, Clip::Norm kind,
                      llvm::ArrayRef<mlir::Value> values);

} // namespace polyrank::training
