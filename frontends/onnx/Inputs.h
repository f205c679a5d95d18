// The inputs that a model declares.

#pragma once

#include "frontends/import/Inputs.h"
#include "frontends/onnx/Model.h"

namespace polyrank::frontends::onnx {

/// In the file's order, without those that are initializers. An error at
/// `location` where one is a parameter that was exported without its values.
mlir::FailureOr<std::vector<DeclaredInput>>
findInputs(mlir::Location location, const Model &model,
           const ImportOptions &options);

} // namespace polyrank::frontends::onnx
