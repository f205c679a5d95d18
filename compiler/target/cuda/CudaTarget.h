// The CUDA target: kernels are PTX and machine code of NVIDIA's GPUs.

#pragma once

#include "mlir/IR/Attributes.h"
#include "mlir/IR/DialectRegistry.h"
#include "support/Result.h"
#include "llvm/ADT/StringRef.h"

namespace polyrank::cuda {

/// Makes `#cuda.target` a target in every context with these dialects, and
/// registers the dialects that compiling for it needs.
void registerTarget(mlir::DialectRegistry &registry);

/// Returns `#cuda.target` of a list of architectures, "sm_90a,sm_100a"; of the
/// default ones if the text is empty. What is wrong with the list, its check
/// says.
mlir::Attribute parseTarget(mlir::MLIRContext &context,
                            llvm::StringRef architectures);

} // namespace polyrank::cuda
