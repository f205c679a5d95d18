// The check of an ELF image of kernels before it is loaded.

#pragma once

#include "support/Result.h"

#include <cstdint>
#include <span>

namespace polyrank::runtime {

/// Accepts an x86-64 shared object that the dynamic loader can map without
/// running or reading anything else: no dependencies, constructors, resolvers,
/// interpreter, search paths, thread-local storage or writable code; only the
/// plainest relocations; undefined symbols only from `allowedSymbols`. This
/// guards against accidents. The code itself is trusted like any program.
Result<void> checkKernelImage(std::span<const uint8_t> image);

/// Returns true for a function that kernels may call: memory functions and
/// libm.
bool isAllowedSymbol(const char *name);

} // namespace polyrank::runtime
