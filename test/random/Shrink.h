// A failing program in its smallest form, as a lit test.

#pragma once

#include "test/random/Check.h"

namespace polyrank::test {

/// Makes `module` smaller for as long as `fails` holds of it: ops become inputs
/// or their operands, outputs what they are computed from, regions are inlined,
/// results, arguments and constraints go.
void shrink(mlir::OwningOpRef<mlir::ModuleOp> &module,
            llvm::function_ref<bool(mlir::ModuleOp)> fails);

/// What `run` says is wrong with a program, computed in a process of its own,
/// so that a crash is an answer too: `{stage, message}`, of which the message
/// of a crash is `crashed`.
std::optional<std::pair<std::string, std::string>>
runInChild(llvm::function_ref<std::optional<Failure>()> run);

/// Shrinks the failure of the program of `seed` and returns it as the text of
/// an .mlir file with its RUN lines; empty where the program passes.
std::string shrinkToTest(mlir::MLIRContext &context, uint64_t seed);

} // namespace polyrank::test
