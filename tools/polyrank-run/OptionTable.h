// The options of polyrank-run.

#pragma once

#include "support/OptionTable.h"
#include "tools/polyrank-run/Options.h"

namespace polyrank::runtime {

/// All options, with rows that fill the fields of `options`. Their order is
/// that of --help.
OptionTable optionTable(RunOptions &options);

/// The groups of the table.
/// @{
OptionGroup sampleOptions(RunOptions &options);
OptionGroup stepOptions(RunOptions &options);
OptionGroup evaluationOptions(RunOptions &options);
OptionGroup weightOptions(RunOptions &options);
OptionGroup checkpointOptions(RunOptions &options);
OptionGroup rankOptions(RunOptions &options);
OptionGroup machineOptions(RunOptions &options);
OptionGroup reportOptions(RunOptions &options);
OptionGroup calibrationOptions(RunOptions &options);
/// @}

/// Returns a function for OptionRules::refuse of options that are about values:
/// --rehearse computes none.
std::function<std::string()> unlessRehearsal(const RunOptions &options);

} // namespace polyrank::runtime
