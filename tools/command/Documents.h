// The documents generated from a tool's command line besides --help: its man
// page (--man) and shell completions (--completions).

#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace polyrank {

/// Adds --man and --completions. The app must outlive the use of its options.
void addDocumentOptions(CLI::App &app);

/// Returns the page in the format of man(7).
std::string manPage(const CLI::App &app);

/// Returns the script by which bash, zsh or fish (`shell`) completes the tool's
/// options and their values.
std::string completions(const CLI::App &app, const std::string &shell);

} // namespace polyrank
