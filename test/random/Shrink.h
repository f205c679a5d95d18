// Shrinks a failing program to a minimal lit test.

#pragma once

#include "test/random/Check.h"

namespace polyrank::test {

/// Shrinks `module` as long as `fails` returns true: replaces ops by inputs or
/// their operands, and outputs by what they are computed from, inlines regions,
/// and removes results, arguments and constraints.
void shrink(mlir::OwningOpRef<mlir::ModuleOp> &module,
            llvm::function_ref<bool(mlir::ModuleOp)> fails);

/// Runs `run` in a process of its own, so that a crash is a result, too.
/// Returns `{stage, message}` of a failure; the message of a crash is
/// `crashed`.
std::optional<std::pair<std::string, std::string>>
runInChild(llvm::function_ref<std::optional<Failure>()> run);

/// Shrinks the failure of the program of `seed` and returns it as the text of
/// an .mlir file with its RUN lines; empty if the program passes.
std::string shrinkToTest(mlir::MLIRContext &context, uint64_t seed,
                         int64_t machines);

} // namespace polyrank::test
