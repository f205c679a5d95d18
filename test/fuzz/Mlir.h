// What the targets on MLIR share.

#pragma once

#include "frontends/import/Options.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/IR/Verifier.h"

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

/// How a program is imported, by the last bits of its size. Its bounds are so
/// low that an import takes a part of a second with the sanitizers too.
inline frontends::ImportOptions programOptions(size_t size) {
  frontends::ImportOptions options;
  options.training = size & 1;
  if (size & 2)
    options.trainingMode = bool(size & 4);
  if (size & 8)
    options.batchNorm = frontends::BatchNorm::Batch;
  options.foldingBudget = 1 << 16;
  options.maxOps = 1 << 11;
  return options;
}

/// What was imported is a right module; what was not has said why.
inline void checkImported(mlir::OwningOpRef<mlir::ModuleOp> module,
                          Diagnostics &diagnostics) {
  diagnostics.checkOutcome(bool(module));
  if (module && failed(mlir::verify(*module)))
    std::abort();
}

} // namespace polyrank::fuzz
