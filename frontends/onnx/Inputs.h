// The inputs that a model declares.

#pragma once

#include "frontends/import/Inputs.h"
#include "frontends/onnx/Model.h"

namespace polyrank::frontends::onnx {

/// Dim `number` of an input or output. A size of -1 (paddle2onnx) and a batch
/// of 0 (old exporters) mean any size.
DeclaredDim declaredDim(const Dim &dim, size_t number);

/// The inputs in the order of the file, without those that are initializers.
/// Emits an error at `location` if one is a parameter that was exported without
/// its values.
mlir::FailureOr<std::vector<DeclaredInput>>
findInputs(mlir::Location location, const Model &model,
           const ImportOptions &options);

} // namespace polyrank::frontends::onnx
