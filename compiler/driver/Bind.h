// Inputs whose values are known when the model is compiled: --bind NAME=VALUE.

#pragma once

#include "compiler/driver/Driver.h"
#include "frontends/import/Description.h"
#include "frontends/import/Options.h"
#include "mlir/IR/MLIRContext.h"

namespace polyrank::driver {

/// Adds each `NAME=VALUE` of `--bind` to the values that are known at import.
/// VALUE is a number, `true` or `false`, the value of all elements of the
/// input, or FILE.npy, an array of the input's shape. Sizes that the array
/// gives to open dims of the file hold for all inputs. Fails if the model has
/// no such input, or if the value does not fit its type or shape.
Result<void> bindInputs(mlir::MLIRContext &context, const Options &options,
                        frontends::ImportOptions &result);

/// Removes the inputs that have values from a description.
void eraseBound(const Options &options, frontends::ModelDescription &model);

} // namespace polyrank::driver
