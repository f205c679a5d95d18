// Objects to one shared object.

#pragma once

#include <string>
#include <vector>

#include "mlir/Support/LogicalResult.h"

namespace polyrank::cpu {

/// Links objects with LLVM's ld.lld into a shared object that depends on
/// nothing and runs nothing when loaded. Fails with `reason` where the linker
/// is missing or fails, or an object needs a symbol that no kernel may need.
mlir::FailureOr<std::string> linkImage(const std::vector<std::string> &objects,
                                       std::string &reason);

} // namespace polyrank::cpu
