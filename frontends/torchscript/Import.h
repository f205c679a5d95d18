// TorchScript file -> one function @forward in the graph dialect.

#pragma once

#include "frontends/import/Description.h"
#include "frontends/import/Options.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "support/Result.h"

namespace polyrank::frontends {

/// Imports the model that `torch.jit.save` wrote to `path`. The module is as
/// `importOnnx` makes it:
///
/// - Parameters and buffers have the names of the state dict; those with
///   `requires_grad` train. Names that are one tensor are one parameter.
/// - Inputs are the tensors among the arguments of `forward`, under their names
///   there. A traced model has the sizes it was traced with unless
///   `options.inputs` says others; a scripted one has none, so all must be
///   given. An argument with a default is an input only if it is given a size.
/// - Outputs are `output`, or `output_0`, `output_1`, .. for the elements of a
///   tuple or list, or the keys of a dict.
/// - What decides control flow must be known at import.
///
/// Errors are diagnostics of `context`, all unsupported operators in one; the
/// result is then null.
mlir::OwningOpRef<mlir::ModuleOp>
importTorchScript(mlir::MLIRContext &context, llvm::StringRef path,
                  const ImportOptions &options);

/// What the file holds. An error says what is wrong with the file, or with what
/// `options` freeze.
Result<ModelDescription> describeTorchScript(llvm::StringRef path,
                                             const ImportOptions &options);

} // namespace polyrank::frontends
