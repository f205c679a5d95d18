// The command line of polyrank-compile.

#pragma once

#include <variant>

#include "compiler/driver/Driver.h"

namespace polyrank::driver {

/// Returns the options, or the exit status if there is nothing more to do
/// (--help, or a mistake that has been reported).
std::variant<Options, int> parseOptions(int argc, char **argv);

} // namespace polyrank::driver
