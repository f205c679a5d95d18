// The options about samples: which ones, in which order, how often.

#pragma once

#include "tools/polyrank-run/Options.h"

#include <CLI/CLI.hpp>

namespace polyrank::runtime {

/// Divides the texts of --data and --eval-data into files, and adds `more` to
/// those of --data: files into which a shell expanded a pattern. Throws
/// CLI::ParseError.
void takeFiles(CLI::App &app, RunOptions &options,
               const std::vector<std::string> &more);

} // namespace polyrank::runtime
