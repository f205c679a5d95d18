// Globs over the names of the user's model: parameters, modules, values.

#pragma once

#include <string>

#include "llvm/ADT/StringRef.h"

namespace polyrank::graph {

/// Whether the glob matches the name, or what is left of it when leading
/// modules are dropped. False where `glob` is none; see `explainPattern`.
bool matchesName(llvm::StringRef glob, llvm::StringRef name);

/// Why `glob` is not a glob; empty where it is one.
std::string explainPattern(llvm::StringRef glob);

} // namespace polyrank::graph
