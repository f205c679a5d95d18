// The options of polyrank-compile.

#pragma once

#include "compiler/driver/Driver.h"
#include "support/OptionTable.h"

namespace polyrank::driver {

/// All options, with rows that fill the fields of `options`. Their order is
/// that of --help and of the printed command.
OptionTable optionTable(Options &options);

/// The groups of the table besides those of the strategy.
/// @{
OptionGroup modelOptions(Options &options);
OptionGroup machineOptions(Options &options);
OptionGroup trainingOptions(Options &options);
OptionGroup layerOptions(Options &options);
OptionGroup reportOptions(Options &options);
/// @}

/// Returns a function for OptionRules::refuse: `reason` if the plan is a
/// forward plan.
std::function<std::string()> unlessForward(const Options &options,
                                           std::string reason);

} // namespace polyrank::driver
