// Lines of the user's source.

#pragma once

#include "mlir/IR/Location.h"
#include "llvm/ADT/StringRef.h"

namespace polyrank::frontends {

/// Of a Python stack trace the innermost line that is not PyTorch's own: what
/// the user wrote. Unknown where it has none.
mlir::Location sourceOf(mlir::MLIRContext *context, llvm::StringRef trace);

} // namespace polyrank::frontends
