// The symbols that stand for the user's parameters in a module.

#pragma once

#include <string>

#include "llvm/ADT/StringRef.h"

namespace polyrank::graph {

/// The symbol of the parameter or buffer that the user's model calls `name`. It
/// is that name, unless the compiler calls something of its own so in the same
/// module (the functions `forward` and `step`, their programs `step_0`,
/// kernels): then it is "parameter:step". Different names have different
/// symbols.
std::string symbolOf(llvm::StringRef name);

/// What the user's model calls the parameter with this symbol; messages, files
/// and patterns have this name.
llvm::StringRef nameOf(llvm::StringRef symbol);

} // namespace polyrank::graph
