// What the targets on MLIR share.

#pragma once

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

#include <memory>

namespace polyrank::fuzz {

/// A context takes long to make, and keeps every attribute: a new one for each
/// few inputs.
class Context {
public:
  mlir::MLIRContext &next() {
    if (uses++ % 64 == 0)
      context = std::make_unique<mlir::MLIRContext>(
          mlir::MLIRContext::Threading::DISABLED);
    return *context;
  }

private:
  std::unique_ptr<mlir::MLIRContext> context;
  unsigned uses = 0;
};

/// Swallows diagnostics, and sees to it that whatever fails has said why.
class Diagnostics {
public:
  explicit Diagnostics(mlir::MLIRContext &context)
      : handler(&context, [this](mlir::Diagnostic &diagnostic) {
          std::string text = diagnostic.str(); // printing is tested as well
          errors += diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error;
          empty |= text.empty();
        }) {}

  bool hasErrors() const { return errors > 0; }

  void checkOutcome(bool succeeded) {
    if (empty || succeeded == (errors > 0))
      std::abort();
    errors = 0;
  }

private:
  mlir::ScopedDiagnosticHandler handler;
  int errors = 0;
  bool empty = false;
};

} // namespace polyrank::fuzz
