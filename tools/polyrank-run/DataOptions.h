// The options about samples: which, in which order, how often.

#pragma once

#include "tools/polyrank-run/Options.h"

#include <CLI/CLI.hpp>

namespace polyrank::runtime {

/// What is given as text, until all of the command line is read.
struct DataOptionTexts {
  std::string order, documents;
  std::vector<std::string> more; // files that a shell made of a pattern
};

/// Adds them all, but for --inputs; returns --data.
CLI::Option *addDataOptions(CLI::App &app, RunOptions &options,
                            DataOptionTexts &texts);

/// Takes them over once they are parsed. Throws CLI::ParseError.
void takeDataOptions(CLI::App &app, RunOptions &options,
                     const DataOptionTexts &texts);

/// The least number of steps in which `epochs` times `samples` positions are
/// taken: the last batch may run on into the next epoch.
uint64_t stepsOfEpochs(double epochs, uint64_t samples, uint64_t batch);

} // namespace polyrank::runtime
