// The layouts by which the automatic cut of a pipeline prices ops: those of the
// step that is not cut.

#pragma once

#include "compiler/driver/Driver.h"
#include "dialects/sharding/Layout.h"
#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace polyrank::driver {

/// Finds the layouts of the step of `module`, whose @forward is ready to be cut
/// (training::prepareForward), as if it were not cut: a value that goes from
/// stage to stage keeps its layout. Writes the cost of each op and the memory
/// of each parameter in these layouts on @forward (compiler/stages/
/// LaidOutCosts.h). `module` has its machine; `mesh` is that of the options,
/// and has a pipe axis.
///
/// Returns why the step cannot be laid out without stages, and then writes
/// nothing, so that the cut counts whole tensors; empty if it can. A strategy
/// that cannot be meant is such a reason, and an error of the cut step.
std::string layOutForCut(mlir::ModuleOp module, const Options &options,
                         sharding::MeshAttr mesh);

} // namespace polyrank::driver
