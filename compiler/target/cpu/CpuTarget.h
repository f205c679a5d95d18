// The CPU target: kernels are vector code, products are oneDNN's.

#pragma once

#include "mlir/IR/DialectRegistry.h"

namespace polyrank::cpu {

/// Makes `#cpu.target` a target in every context with these dialects, and the
/// one of modules that name none. Registers the dialects that compiling for it
/// needs.
void registerTarget(mlir::DialectRegistry &registry);

} // namespace polyrank::cpu
