// Captures errors of MLIR as text.

#pragma once

#include <string>

#include "mlir/IR/Diagnostics.h"

namespace polyrank::frontends {

/// During its lifetime no diagnostic of the context is printed, and the text of
/// the last error is kept in `message`.
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
