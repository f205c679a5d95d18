// Runs the compiled program on real processes.

#pragma once

#include "test/random/Program.h"

namespace polyrank::test {

/// Writes weights, inputs and a plan of `partitioned` (a module with layouts
/// and collectives), runs it with polyrank-run and compares its weights, log
/// and outputs with the global evaluation. If `machines` is more than 1 and the
/// ranks can be shared out over so many, as many polyrank-runs then run the
/// plan together, and must write the same bytes. Returns what is wrong, or "".
std::string checkOnProcesses(mlir::ModuleOp partitioned, const Program &program,
                             uint64_t seed, int64_t machines);

} // namespace polyrank::test
