// The stages that a compilation and a description of a model share.

#pragma once

#include "compiler/driver/Driver.h"
#include "frontends/onnx/Import.h"
#include "mlir/Pass/PassManager.h"

namespace polyrank::driver {

/// The dialects of every stage.
mlir::DialectRegistry getRegistry();

/// What the importer has to know. On failure `error` says what is wrong.
mlir::LogicalResult readImportOptions(const Options &options,
                                      frontends::ImportOptions &result,
                                      std::string &error);

/// From @forward to @step; without a loss (and then without training) too.
void buildTrainingPipeline(mlir::OpPassManager &manager,
                           const Options &options);

} // namespace polyrank::driver
