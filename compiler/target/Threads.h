// Compiling several kernels at once.

#pragma once

#include "mlir/IR/MLIRContext.h"

namespace polyrank::target {

/// Enables MLIR's threads while kernels are compiled. Earlier passes run
/// without them: they are short, and would take a lock for every type that they
/// create. Each kernel is compiled in a module of its own, so threads do not
/// see each other's changes. They share the context, in which all dialects are
/// loaded, and the diagnostics, which come in the order of the kernels.
class Threads {
public:
  explicit Threads(mlir::MLIRContext *context)
      : context(context), wasEnabled(context->isMultithreadingEnabled()) {
    context->enableMultithreading();
  }
  ~Threads() { context->enableMultithreading(wasEnabled); }
  Threads(const Threads &) = delete;

private:
  mlir::MLIRContext *context;
  bool wasEnabled;
};

} // namespace polyrank::target
