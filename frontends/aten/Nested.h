// Values in lists, tuples and dicts that lie in each other.

#pragma once

#include "frontends/aten/Value.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace polyrank::frontends::aten {

/// No list has more elements and no text more characters: a program could
/// double them with every line.
constexpr size_t maxListSize = 1 << 20;

/// As deep as lists in lists are compared, written and detached.
constexpr int maxNesting = 64;

/// PyTorch's tensors have no more dims.
constexpr size_t maxRank = 64;

/// Calls `visit` with `value` and with all that lies in it, each container once
/// (they may hold one another, and themselves), until it returns false; whether
/// it never did. Containers lie in each other as deep as a program likes, so
/// nothing walks through them by recursion without a bound of its own.
bool forEachValue(const Value &value,
                  llvm::function_ref<bool(const Value &)> visit);

} // namespace polyrank::frontends::aten
