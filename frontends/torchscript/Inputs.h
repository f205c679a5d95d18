// The inputs and outputs of a TorchScript model's `forward`.

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "frontends/aten/Operators.h"
#include "frontends/import/Inputs.h"
#include "frontends/torchscript/Archive.h"

namespace polyrank::frontends::torchscript {

/// An argument of `forward`.
struct ForwardArgument {
  std::string name;
  /// True for an input of the model; other arguments keep their default.
  bool isInput = false;
  ElementType type = ElementType::F32;
  /// The sizes with which it was traced.
  std::optional<std::vector<int64_t>> traced;
};

/// The arguments of `forward` after `self`. An error says which one cannot be
/// an input, or which size is missing.
Result<std::vector<ForwardArgument>>
findArguments(const Archive &archive, const Function &forward,
              const ImportOptions &options);

/// The inputs among the arguments, for `specialiseInputs`: traced sizes are
/// fixed unless `options` give others.
std::vector<DeclaredInput> declareInputs(mlir::MLIRContext *context,
                                         llvm::ArrayRef<ForwardArgument> found,
                                         const ImportOptions &options);

/// The values that `forward` returned, by name. An error names a part that is
/// not a tensor.
Result<std::vector<std::pair<std::string, aten::Value>>>
nameOutputs(const aten::Value &result);

} // namespace polyrank::frontends::torchscript
