// The options about samples: which ones, in which order, how often.

#pragma once

#include "tools/polyrank-run/Options.h"

#include <CLI/CLI.hpp>

namespace polyrank::runtime {

/// Option values as text, until the whole command line is parsed.
struct DataOptionTexts {
  std::string order, documents;
  std::vector<std::string> more; // files into which a shell expanded a pattern
};

/// Adds all of these options except --inputs. Returns --data.
CLI::Option *addDataOptions(CLI::App &app, RunOptions &options,
                            DataOptionTexts &texts);

/// Stores the parsed values in `options`. Throws CLI::ParseError.
void takeDataOptions(CLI::App &app, RunOptions &options,
                     const DataOptionTexts &texts);

/// Returns the least number of steps that take `epochs` times `samples`
/// positions: the last batch may extend into the next epoch.
uint64_t stepsOfEpochs(double epochs, uint64_t samples, uint64_t batch);

} // namespace polyrank::runtime
