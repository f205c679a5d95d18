// Lowers loops to a function in the scf, arith, vector and LLVM dialects.

#pragma once

#include "compiler/target/cpu/KernelSchedule.h"
#include "mlir/IR/BuiltinOps.h"

namespace polyrank::cpu {

/// Returns a module with the function `name`(buffers: ptr, begin: i64, end:
/// i64), which runs items [begin, end). The buffers are those of the arguments,
/// then of the results. Accesses assume no more alignment than an element's.
mlir::OwningOpRef<mlir::ModuleOp> emitLoops(llvm::StringRef name, LoopsOp loops,
                                            const KernelSchedule &schedule);

} // namespace polyrank::cpu
