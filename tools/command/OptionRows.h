// A table of options as a command line of CLI11.

#pragma once

#include "support/OptionTable.h"

#include <CLI/CLI.hpp>

namespace polyrank {

/// Adds the options of a table. Once the command line is parsed, their fields
/// have its values. The fields must outlive the app.
void addOptions(CLI::App &app, const OptionTable &table);

/// Throws a CLI::ValidationError for the first option that was given and is
/// refused (OptionRules::refuse). To be called once everything is parsed.
void refuseContradictions(const CLI::App &app, const OptionTable &table);

} // namespace polyrank
