// ONNX model -> one function @forward in the graph dialect.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dialects/graph/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringMap.h"

namespace polyrank::frontends {

/// What the user says about an input of the model: `--input ids=int64[8,128]`.
struct InputSpec {
  std::string dtype; // as ONNX and NumPy call it: "int64", "float32"
  llvm::SmallVector<int64_t> shape;
};

/// Parses `NAME=DTYPE[D0,D1,...]`. On failure `error` says what is wrong.
std::optional<std::pair<std::string, InputSpec>>
parseInputSpec(llvm::StringRef text, std::string &error);

/// How batch normalization gets its statistics.
enum class BatchNorm {
  /// As the file says; an error in training, since PyTorch's exporter writes
  /// the inference form whatever the model's mode.
  Unset,
  /// The stored ones, which stay as they are.
  Frozen,
  /// Those of the batch; the stored ones follow them.
  Batch
};

/// Nodes of one op that cannot be imported for one reason.
struct UnsupportedNodes {
  std::string reason;             // "TopK (opset 20) is not supported"
  std::vector<std::string> nodes; // `node_topk` in router
};

struct ImportOptions {
  llvm::StringMap<InputSpec> inputs;
  /// Sizes of the dims that the file names, in all inputs.
  llvm::StringMap<int64_t> dims;
  /// Whether a training step will be built.
  bool training = false;
  BatchNorm batchNorm = BatchNorm::Unset;
  /// With BatchNorm::Batch: statistics of groups of so many samples; 0 for one
  /// group.
  int64_t batchNormGroup = 0;
  /// The rate of every dropout, instead of the file's; 0 for none.
  std::optional<double> dropout;
  /// Whether copies of a matrix that the exporter made are one parameter again.
  bool tie = true;
  /// Patterns over modules and values through which no gradient passes.
  std::vector<std::string> detach;
  /// Patterns over parameters that are not trained, or that alone are.
  std::vector<std::string> freeze, trainOnly;
  /// Whether weights may be absent from the file (onnx::Weights).
  bool abstractWeights = false;
  /// How many elements may be computed at import, of what depends on no input
  /// or parameter; what comes after is left to run time.
  int64_t foldingBudget = int64_t(1) << 28;
  /// Inputs whose values are known now; they are no arguments of @forward.
  llvm::StringMap<graph::Tensor> known;
  /// Where given, it takes all nodes that cannot be imported, instead of a
  /// diagnostic.
  std::vector<UnsupportedNodes> *unsupported = nullptr;
};

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
///   `graph.parameter` and an argument, used or not, so that what is saved
///   later is the whole state. One tensor under several names (tied weights) is
///   one parameter; the further names are its `aliases`.
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
