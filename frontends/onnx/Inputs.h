// The model's inputs, with the sizes that the user gives to open dims.

#pragma once

#include <string>
#include <vector>

#include "frontends/onnx/Import.h"
#include "frontends/onnx/Model.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Diagnostics.h"

namespace polyrank::frontends::onnx {

/// What @forward takes beside parameters and state.
struct Input {
  std::string name;
  mlir::RankedTensorType type;
  mlir::IntegerType held; // see Imported
  bool hasOpenBatch; // the file leaves dim 0 open
};

/// In the file's order, without those whose values are known now. An error at
/// `location` where a size is missing, or what the user says is not so.
mlir::FailureOr<std::vector<Input>>
specialiseInputs(mlir::Location location, const Model &model,
                 const ImportOptions &options);

} // namespace polyrank::frontends::onnx
