// Imports a TorchScript file as one function @forward in the graph dialect.

#pragma once

#include "frontends/import/Description.h"
#include "frontends/import/Options.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "support/Result.h"

namespace polyrank::frontends {

/// Imports the model that `torch.jit.save` wrote to `path`. The module is like
/// that of `importOnnx`:
///
/// - Parameters and buffers have the names of the state dict; those with
///   `requires_grad` train. Names for the same tensor are one parameter.
/// - Inputs are the tensors among the arguments of `forward`, under their names
///   there. A traced model has the sizes with which it was traced, unless
///   `options.inputs` gives others; a scripted one has none, so all must be
///   given. An argument with a default is an input only if it is given a size.
/// - Outputs are `output`, or `output_0`, `output_1`, .. for the elements of a
///   tuple or list, or the keys of a dict.
/// - The conditions of control flow must be known at import.
///
/// Errors are diagnostics of `context`, a single one for all unsupported
/// operators; the result is then null.
mlir::OwningOpRef<mlir::ModuleOp>
importTorchScript(mlir::MLIRContext &context, llvm::StringRef path,
                  const ImportOptions &options);

/// Describes the contents of the file. An error says what is wrong with the
/// file, or with the freezing that `options` ask for.
Result<ModelDescription> describeTorchScript(llvm::StringRef path,
                                             const ImportOptions &options);

} // namespace polyrank::frontends
