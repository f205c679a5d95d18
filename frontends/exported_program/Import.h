// Imports a `.pt2` file as one function @forward in the graph dialect.

#pragma once

#include "frontends/import/Description.h"
#include "frontends/import/Options.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "support/Result.h"

namespace polyrank::frontends {

/// Imports the model that `torch.export.save` wrote to `path`. The module is
/// like that of `importOnnx`:
///
/// - Parameters and persistent buffers have the names of the state dict; those
///   with `requires_grad` train. Names for the same tensor are one parameter.
/// - Inputs have the names that torch.export gave them, those of the arguments
///   of `forward`. Open sizes have the names of torch.export's symbols ("s77").
/// - Outputs are `output`, or `output_0`, `output_1`, .. for the elements of a
///   tuple or list, or the keys of a dict or dataclass.
/// - Buffers that the program changes are updated by a step.
/// - The conditions of branches must be known at import.
///
/// Errors are diagnostics of `context`, a single one for all unsupported
/// operators; the result is then null.
mlir::OwningOpRef<mlir::ModuleOp>
importExportedProgram(mlir::MLIRContext &context, llvm::StringRef path,
                      const ImportOptions &options);

/// Describes the contents of the file. An error says what is wrong with the
/// file, or with the freezing that `options` ask for.
Result<ModelDescription> describeExportedProgram(llvm::StringRef path,
                                                 const ImportOptions &options);

} // namespace polyrank::frontends
