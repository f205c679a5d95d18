// The targets that the compiler is built with: the one list of them.

#pragma once

#include "mlir/IR/Attributes.h"
#include "mlir/IR/DialectRegistry.h"
#include "support/Result.h"
#include "llvm/ADT/StringRef.h"

namespace polyrank::target {

/// Makes the attributes of all targets known as such. A module that names no
/// target has the first one of the list.
void registerTargets(mlir::DialectRegistry &registry);

/// Returns the target that a text NAME or NAME:MACHINE names, such as
/// "cpu:x86-64-v4": the target in `rank.machine` of a module. Without a machine
/// it is that on which the compiler runs. Fails if there is no target of this
/// name, if nothing follows the colon, or if the target cannot make code for
/// the machine.
Result<mlir::Attribute> parseTarget(mlir::MLIRContext &context,
                                    llvm::StringRef text);

} // namespace polyrank::target
