// The cores of a CPU: kernels are vector code, products oneDNN's.

#pragma once

#include "mlir/IR/DialectRegistry.h"

namespace polyrank::cpu {

/// Makes `#rank.cpu` a target of every context with these dialects, and known
/// what compiling for it needs.
void registerTarget(mlir::DialectRegistry &registry);

} // namespace polyrank::cpu
