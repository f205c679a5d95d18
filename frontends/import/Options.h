// What the user asks of the import of a model, whatever its format.

#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dialects/graph/Tensor.h"
#include "support/Result.h"
#include "llvm/ADT/StringMap.h"

namespace polyrank::frontends {

/// What the user says about an input of the model: `--input ids=int64[8,128]`.
struct InputSpec {
  std::string dtype; // as NumPy calls it: "int64", "float32"
  llvm::SmallVector<int64_t> shape;
};

/// Parses `NAME=DTYPE[D0,D1,...]`.
Result<std::pair<std::string, InputSpec>> parseInputSpec(llvm::StringRef text);

/// How batch normalization gets its statistics.
enum class BatchNorm {
  /// As the file says. Of ONNX an error in training, since PyTorch's exporter
  /// writes the inference form whatever the model's mode.
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
  /// `--train` or `--eval`: the mode of a TorchScript model's layers, instead
  /// of the one it was saved in.
  std::optional<bool> trainingMode;
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
  /// A safetensors file with the names of parameters that the export lost;
  /// empty: none.
  std::string params;
  /// Whether weights may be absent from the file.
  bool abstractWeights = false;
  /// How many elements may be computed at import, of what depends on no input
  /// or parameter; what comes after is left to run time.
  int64_t foldingBudget = int64_t(1) << 28;
  /// How many steps a program may take and operators it may make: a small file
  /// could ask for any number. A model of 10,000 nodes makes some 50,000.
  int64_t maxOps = int64_t(1) << 21;
  /// Inputs whose values are known now; they are no arguments of @forward.
  llvm::StringMap<graph::Tensor> known;
  /// Where given, it takes all nodes that cannot be imported, instead of a
  /// diagnostic.
  std::vector<UnsupportedNodes> *unsupported = nullptr;
};

} // namespace polyrank::frontends
