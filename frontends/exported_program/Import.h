// A `.pt2` file -> one function @forward in the graph dialect.

#pragma once

#include "frontends/import/Description.h"
#include "frontends/import/Options.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "support/Result.h"

namespace polyrank::frontends {

/// Imports the model that `torch.export.save` wrote to `path`. The module is as
/// `importOnnx` makes it:
///
/// - Parameters and persistent buffers have the names of the state dict; those
///   with `requires_grad` train. Names that are one tensor are one parameter.
/// - Inputs have the names that torch.export gave them, those of the arguments
/// of
///   `forward`. Sizes that it left open have the names of its symbols ("s77").
/// - Outputs are `output`, or `output_0`, `output_1`, .. for the elements of a
///   tuple or list, or the keys of a dict or dataclass.
/// - Buffers that the program changes take their new values in a step.
/// - What decides a branch must be known at import.
///
/// Errors are diagnostics of `context`, all unsupported operators in one; the
/// result is then null.
mlir::OwningOpRef<mlir::ModuleOp>
importExportedProgram(mlir::MLIRContext &context, llvm::StringRef path,
                      const ImportOptions &options);

/// What the file holds. An error says what is wrong with the file, or with what
/// `options` freeze.
Result<ModelDescription> describeExportedProgram(llvm::StringRef path,
                                                 const ImportOptions &options);

} // namespace polyrank::frontends
