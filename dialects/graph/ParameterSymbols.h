// The symbols that stand for the user's parameters in a module.

#pragma once

#include <string>

#include "llvm/ADT/StringRef.h"

namespace polyrank::graph {

/// The symbol of the parameter or buffer that the user's model calls `name`. It
/// is that name, unless the compiler uses it for something of its own in the
/// same module (the functions `forward` and `step`, their programs `step_0`,
/// kernels): then it is "parameter:step". Different names have different
/// symbols.
std::string symbolOf(llvm::StringRef name);

/// The name in the user's model of the parameter with this symbol. Messages,
/// files and patterns use this name.
llvm::StringRef nameOf(llvm::StringRef symbol);

} // namespace polyrank::graph
