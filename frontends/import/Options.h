// The user's options for the import of a model, for all formats.

#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dialects/graph/Tensor.h"
#include "support/Result.h"
#include "llvm/ADT/StringMap.h"

namespace polyrank::frontends {

/// The type and shape that the user gives for an input of the model: `--input
/// ids=int64[8,128]`.
struct InputSpec {
  std::string dtype; // as NumPy calls it: "int64", "float32"
  llvm::SmallVector<int64_t> shape;
};

/// Parses `NAME=DTYPE[D0,D1,...]`.
Result<std::pair<std::string, InputSpec>> parseInputSpec(llvm::StringRef text);

/// For each dim of an input whether the file leaves its size open, and under
/// which name: nullopt for a size in the file, "" for a dim without a name.
using OpenDims = llvm::SmallVector<std::optional<std::string>>;

/// How batch normalization gets its statistics.
enum class BatchNorm {
  /// As the file says. For ONNX this is an error in training, since PyTorch's
  /// exporter writes the inference form whatever the mode of the model.
  Unset,
  /// The stored statistics, which do not change.
  Frozen,
  /// The statistics of the batch; the stored ones are updated (running
  /// averages).
  Batch
};

/// The nodes of one op that cannot be imported for the same reason.
struct UnsupportedNodes {
  std::string reason;             // "TopK (opset 20) is not supported"
  std::vector<std::string> nodes; // `node_topk` in router
};

struct ImportOptions {
  llvm::StringMap<InputSpec> inputs;
  /// Sizes of named open dims, for all inputs.
  llvm::StringMap<int64_t> dims;
  /// True if a training step will be built.
  bool training = false;
  /// `--train` or `--eval`: the mode of the layers of a TorchScript model,
  /// instead of the mode in which it was saved.
  std::optional<bool> trainingMode;
  BatchNorm batchNorm = BatchNorm::Unset;
  /// With BatchNorm::Batch: the number of samples per group that has its own
  /// statistics; 0 for one group.
  int64_t batchNormGroup = 0;
  /// The rate of every dropout, instead of the file's; 0 for none.
  std::optional<double> dropout;
  /// Ties copies of a matrix that the exporter made into one parameter again.
  bool tie = true;
  /// Patterns for modules and values through which no gradient passes.
  std::vector<std::string> detach;
  /// Patterns for parameters that are not trained, or that alone are trained.
  std::vector<std::string> freeze, trainOnly;
  /// A safetensors file with the names of parameters that the export lost, or
  /// empty.
  std::string params;
  /// Allows weights to be absent from the file.
  bool abstractWeights = false;
  /// The number of elements that constant folding may compute at import; the
  /// rest is left to run time.
  int64_t foldingBudget = int64_t(1) << 28;
  /// The most steps that the import of a program may take and ops that it may
  /// create, since a small file could ask for any number. A model of 10,000
  /// nodes needs some 80,000.
  int64_t maxOps = int64_t(1) << 21;
  /// Inputs whose values are known at import; they are no arguments of
  /// @forward.
  llvm::StringMap<graph::Tensor> known;
  /// If not null, receives the open dims of each input, by its name.
  llvm::StringMap<OpenDims> *openDims = nullptr;
  /// If not null, receives all nodes that cannot be imported instead of a
  /// diagnostic.
  std::vector<UnsupportedNodes> *unsupported = nullptr;
};

} // namespace polyrank::frontends
