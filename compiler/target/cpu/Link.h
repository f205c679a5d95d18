// Links object files into one shared object.

#pragma once

#include <string>
#include <vector>

#include "support/Result.h"

namespace polyrank::cpu {

/// Links objects with LLVM's ld.lld into a shared object that has no
/// dependencies and runs nothing when loaded. Fails if the linker is missing or
/// fails, or if an object needs a symbol that kernels must not need.
Result<std::string> linkImage(const std::vector<std::string> &objects);

} // namespace polyrank::cpu
