// The formats of model files: which one a file has, and its import.

#pragma once

#include <string>

#include "frontends/import/Description.h"
#include "frontends/import/Options.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "support/Result.h"

namespace polyrank::driver {

enum class ModelFormat { Onnx, TorchScript, ExportedProgram };

/// By what the file holds; its name counts only where that says nothing. An
/// error says what the file is and what to do.
Result<ModelFormat> findFormat(const std::string &path);

/// Imports a model of any format; null, with a diagnostic, where that fails.
mlir::OwningOpRef<mlir::ModuleOp>
importModel(mlir::MLIRContext &context, const std::string &path,
            const frontends::ImportOptions &options);

/// What the file holds.
Result<frontends::ModelDescription>
describeModel(const std::string &path, const frontends::ImportOptions &options);

} // namespace polyrank::driver
