// Links object files into one shared object.

#pragma once

#include <string>
#include <vector>

#include "support/Result.h"

namespace polyrank::cpu {

/// Links objects with LLVM's linker, which is part of the program, into a
/// shared object that has no dependencies and runs nothing when loaded. Fails
/// if the linker does, or if an object needs a symbol that kernels must not
/// need. Only one thread may link at a time: the linker has global state.
Result<std::string> linkImage(const std::vector<std::string> &objects);

} // namespace polyrank::cpu
