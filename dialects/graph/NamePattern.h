// Globs over the names of the user's model: parameters, modules, values.

#pragma once

#include <string>

#include "support/Result.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace polyrank::graph {

/// Returns true if the glob matches the name, or the name without some leading
/// modules. False if `glob` is invalid; see `explainPattern`.
bool matchesName(llvm::StringRef glob, llvm::StringRef name);

/// Says why `glob` is invalid; empty if it is valid.
std::string explainPattern(llvm::StringRef glob);

/// Splits PATTERN[,PATTERN]. The error names the invalid pattern and why it is
/// invalid.
Result<llvm::SmallVector<std::string>> splitPatterns(llvm::StringRef text);

/// The outermost module around an op of this scope whose name the glob matches:
/// "h.0.mlp" for the glob "*.mlp" and the scope "h.0.mlp.c_fc". Empty if there
/// is none.
llvm::StringRef findModule(llvm::StringRef glob, llvm::StringRef scope);

} // namespace polyrank::graph
