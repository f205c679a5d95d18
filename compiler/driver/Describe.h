// polyrank-compile MODEL --describe: reports what a model contains and needs,
// before it is compiled.

#pragma once

#include "compiler/driver/Driver.h"

namespace polyrank::driver {

/// Prints the description on standard output: text, or with `options.json` the
/// report "describe" of docs/reports.md. Other options that the user gave
/// become part of the proposed command. Returns the exit status: 1 if the file
/// cannot be read or an option is wrong. Unsupported ops in the model are no
/// error.
int describe(const Options &options);

} // namespace polyrank::driver
