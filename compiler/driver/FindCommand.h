// Finds options with which a model compiles, as close to the user's as
// possible.

#pragma once

#include "compiler/driver/Driver.h"
#include "frontends/onnx/Describe.h"
#include "mlir/IR/BuiltinOps.h"

namespace polyrank::driver {

struct FoundCommand {
  /// Nullopt if no mesh works; `problem` then says why.
  std::optional<Options> options;
  std::string problem;
  /// The reasons why the options differ from the user's.
  std::vector<std::string> notes;
};

/// Lays out `step`, which was built with the options `given`, and searches for
/// options with which that works: without --mesh, data=2 or one device; for a
/// given mesh that fails, constraints for axes without any, a data axis that
/// divides the batch, fewer axes. Each candidate is compiled up to the
/// collectives.
FoundCommand findCommand(mlir::ModuleOp step, const Options &given,
                         const frontends::ModelDescription &file);

} // namespace polyrank::driver
