// Helpers of the fuzz targets that use MLIR.

#pragma once

#include "frontends/import/Options.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/IR/Verifier.h"

#include <memory>

namespace polyrank::fuzz {

/// Gives out a new context every few inputs: creating one takes long, and each
/// keeps every attribute.
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

/// Collects diagnostics, and checks that every failure has one.
class Diagnostics {
public:
  explicit Diagnostics(mlir::MLIRContext &context)
      : handler(&context, [this](mlir::Diagnostic &diagnostic) {
          std::string text = diagnostic.str(); // printing is tested, too
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

/// Returns the options of an import, chosen by the last bits of the program's
/// size. The bounds are so low that an import takes a fraction of a second even
/// with the sanitizers.
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

/// Checks that an imported module is valid, and that a failure has a
/// diagnostic.
inline void checkImported(mlir::OwningOpRef<mlir::ModuleOp> module,
                          Diagnostics &diagnostics) {
  diagnostics.checkOutcome(bool(module));
  if (module && failed(mlir::verify(*module)))
    std::abort();
}

} // namespace polyrank::fuzz
