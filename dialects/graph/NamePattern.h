// Globs over the names of the user's model: parameters, modules, values.

#pragma once

#include <string>

#include "llvm/ADT/StringRef.h"

namespace polyrank::graph {

/// Returns true if the glob matches the name, or the name without some leading
/// modules. False if `glob` is invalid; see `explainPattern`.
bool matchesName(llvm::StringRef glob, llvm::StringRef name);

/// Says why `glob` is invalid; empty if it is valid.
std::string explainPattern(llvm::StringRef glob);

} // namespace polyrank::graph
