// Losses of an output and a target of its shape, element by element.

#pragma once

#include "compiler/training/Call.h"
#include "dialects/graph/Parts.h"

namespace polyrank::training {

/// Names of the losses, as --loss has them.
llvm::ArrayRef<llvm::StringRef> getPairLosses();

/// Our name of one of PyTorch's: `mse` of `mse_loss`; else `name`.
llvm::StringRef getPairLossName(llvm::StringRef name);

/// A row of constants.
mlir::Value buildRow(graph::Parts &parts, llvm::ArrayRef<double> numbers,
                     mlir::Type elementType);

/// The loss of each element, of which the mean is taken. Options are those of
/// PyTorch's function: `huber(OUTPUT,TARGET,delta=2)`. Emits an error for
/// others, and for what these must not be; `hint` ends the first.
mlir::FailureOr<mlir::Value>
buildPairLoss(graph::Parts &parts, const Call &call, mlir::Value output,
              mlir::Value target, EmitError emitError, llvm::StringRef hint);

} // namespace polyrank::training
