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

/// Returns the least number of steps that take `epochs` times `samples`
/// positions: the last batch may extend into the next epoch.
uint64_t stepsOfEpochs(double epochs, uint64_t samples, uint64_t batch);

} // namespace polyrank::runtime
