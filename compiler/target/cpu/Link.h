// Objects to one shared object.

#pragma once

#include <string>
#include <vector>

#include "support/Result.h"

namespace polyrank::cpu {

/// Links objects with LLVM's ld.lld into a shared object that depends on
/// nothing and runs nothing when loaded. Fails where the linker is missing or
/// fails, or an object needs a symbol that no kernel may need.
Result<std::string> linkImage(const std::vector<std::string> &objects);

} // namespace polyrank::cpu
