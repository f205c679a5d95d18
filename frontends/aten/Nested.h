// Nested lists, tuples and dicts.

#pragma once

#include "frontends/aten/Value.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace polyrank::frontends::aten {

/// The most elements of a list and characters of a text: without a bound a
/// program could double them with every line.
constexpr size_t maxListSize = 1 << 20;

/// The deepest nesting of lists that is compared, printed or detached.
constexpr int maxNesting = 64;

/// The most dims of a tensor, as in PyTorch.
constexpr size_t maxRank = 64;

/// Calls `visit` with `value` and with everything nested in it, until it
/// returns false; returns true if it never did. Each container is visited once,
/// so cycles are allowed. A program can nest containers to any depth, so code
/// that recurses over them needs a bound of its own.
bool forEachValue(const Value &value,
                  llvm::function_ref<bool(const Value &)> visit);

} // namespace polyrank::frontends::aten
