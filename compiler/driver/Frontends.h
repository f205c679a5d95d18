// The formats of model files: detects a file's format, and imports it.

#pragma once

#include <string>

#include "frontends/import/Description.h"
#include "frontends/import/Options.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "support/Result.h"

namespace polyrank::driver {

enum class ModelFormat { Onnx, TorchScript, ExportedProgram };

/// Detects the format by the file's contents; the name counts only if they do
/// not tell. An error says what the file is and what to do.
Result<ModelFormat> findFormat(const std::string &path);

/// Imports a model of any format; null, with a diagnostic, if that fails.
mlir::OwningOpRef<mlir::ModuleOp>
importModel(mlir::MLIRContext &context, const std::string &path,
            const frontends::ImportOptions &options);

/// Describes what the file contains.
Result<frontends::ModelDescription>
describeModel(const std::string &path, const frontends::ImportOptions &options);

} // namespace polyrank::driver
