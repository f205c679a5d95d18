// Options with which a model compiles, as near to the user's as can be.

#pragma once

#include "compiler/driver/Driver.h"
#include "frontends/onnx/Describe.h"
#include "mlir/IR/BuiltinOps.h"

namespace polyrank::driver {

struct FoundCommand {
  /// Nothing where no mesh works; then `problem` says why.
  std::optional<Options> options;
  std::string problem;
  /// Why the options differ from the user's.
  std::vector<std::string> notes;
};

/// Lays out `step`, which `given` have made, and looks for what that takes:
/// without --mesh, data=2 or one device; with a mesh that fails, constraints
/// for the axes that have none, an axis data that divides the batch, fewer
/// axes. Each is tried as a compilation tries it, up to the collectives.
FoundCommand findCommand(mlir::ModuleOp step, const Options &given,
                         const frontends::ModelDescription &file);

} // namespace polyrank::driver
