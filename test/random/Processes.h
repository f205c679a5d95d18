// Runs the compiled program on real processes.

#pragma once

#include "test/random/Program.h"

namespace polyrank::test {

/// Writes weights, inputs and a plan of `partitioned` (a module with layouts
/// and collectives), runs it with polyrank-run and compares its weights, log
/// and outputs with the global evaluation. Returns what is wrong, or "".
std::string checkOnProcesses(mlir::ModuleOp partitioned, const Program &program,
                             uint64_t seed);

} // namespace polyrank::test
