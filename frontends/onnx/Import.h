// Imports an ONNX model as one function @forward in the graph dialect.

#pragma once

#include "frontends/import/Options.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace polyrank::frontends {

/// Imports the model at `path`. The module holds
///
/// ```mlir
/// graph.parameter @"h.0.mlp.c_fc.weight" : tensor<32x128xf32>
///   at "model.onnx.data" offset 4096 length 16384 {trainable}
/// func.func @forward(%0: tensor<32x128xf32>
///                        {graph.role =
///                        #graph.parameter<@"h.0.mlp.c_fc.weight">},
///                    %1: tensor<8x16xi64> {graph.role =
///                    #graph.input<"input_ids">})
///     -> (tensor<8x16x96xf32> {graph.role = #graph.output<"logits">})
/// ```
///
/// - Every parameter and every buffer of the model's state is a
///   `graph.parameter` and an argument, used or not, so that the whole state is
///   saved later. One tensor under several names (tied weights) is one
///   parameter; the other names are its `aliases`.
/// - Whatever does not depend on inputs or parameters has been computed.
/// - Each op's location names its module, node and line of the user's source;
///   `graph.scope` is the path of its module ("h.0.mlp.c_fc").
///
/// Errors are diagnostics of `context`, all unsupported nodes in one; the
/// result is then null.
mlir::OwningOpRef<mlir::ModuleOp> importOnnx(mlir::MLIRContext &context,
                                             llvm::StringRef path,
                                             const ImportOptions &options);

} // namespace polyrank::frontends
