// Finds the lines of the user's source.

#pragma once

#include "mlir/IR/Location.h"
#include "llvm/ADT/StringRef.h"

namespace polyrank::frontends {

/// Returns the innermost line of a Python stack trace that is not PyTorch's
/// own, that is the user's; an unknown location if there is none.
mlir::Location sourceOf(mlir::MLIRContext *context, llvm::StringRef trace);

} // namespace polyrank::frontends
