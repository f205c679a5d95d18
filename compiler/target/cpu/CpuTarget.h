// The CPU target: kernels are vector code, products are oneDNN's.

#pragma once

#include "mlir/IR/Attributes.h"
#include "mlir/IR/DialectRegistry.h"
#include "llvm/ADT/StringRef.h"

namespace polyrank::cpu {

/// Makes `#cpu.target` a target in every context with these dialects, and the
/// one of modules that name none. Registers the dialects that compiling for it
/// needs.
void registerTarget(mlir::DialectRegistry &registry);

/// Returns `#cpu.target` of this machine, whether or not there is such a CPU;
/// of the machine `native` if the text is empty.
mlir::Attribute parseTarget(mlir::MLIRContext &context,
                            llvm::StringRef machine);

/// Returns true for `#cpu.target` of this machine.
bool isNative(mlir::Attribute target);

} // namespace polyrank::cpu
