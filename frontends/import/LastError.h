// What goes wrong in MLIR, for those who report it as a text.

#pragma once

#include <string>

#include "mlir/IR/Diagnostics.h"

namespace polyrank::frontends {

/// While it lives, no diagnostic of the context is printed, and the text of the
/// last error is kept.
class LastError {
public:
  explicit LastError(mlir::MLIRContext &context)
      : handler(&context, [this](mlir::Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error)
            message = diagnostic.str();
          return mlir::success();
        }) {}

  std::string message;

private:
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace polyrank::frontends
