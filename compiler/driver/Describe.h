// polyrank-compile MODEL --describe: what a model holds and needs, before it is
// compiled.

#pragma once

#include "compiler/driver/Driver.h"

namespace polyrank::driver {

/// Prints the description on standard output: text, or with `options.json` the
/// report "describe" of docs/reports.md. What the user gave of the other
/// options is part of the command that it proposes. Returns the exit status: 1
/// where the file cannot be read or an option is wrong; a model that holds
/// unsupported ops is described like any other.
int describe(const Options &options);

} // namespace polyrank::driver
