// Elementwise losses of an output and a target of the same shape.

#pragma once

#include "compiler/training/Call.h"
#include "dialects/graph/Parts.h"

namespace polyrank::training {

/// The names of the losses in --loss.
llvm::ArrayRef<llvm::StringRef> getPairLosses();

/// Our name for PyTorch's: `mse` for `mse_loss`; other names are unchanged.
llvm::StringRef getPairLossName(llvm::StringRef name);

/// A constant of shape [numbers].
mlir::Value buildRow(graph::Parts &parts, llvm::ArrayRef<double> numbers,
                     mlir::Type elementType);

/// The loss of each element, of which the mean is taken. The options are those
/// of PyTorch's function: `huber(OUTPUT,TARGET,delta=2)`. Emits an error for
/// unknown options, which ends in `hint`, and for values that they must not
/// have.
mlir::FailureOr<mlir::Value>
buildPairLoss(graph::Parts &parts, const Call &call, mlir::Value output,
              mlir::Value target, EmitError emitError, llvm::StringRef hint);

} // namespace polyrank::training
