// The documents generated from a tool's command line besides --help: its man
// page (--man), shell completions (--completions), and its section of
// docs/options.md (--options-page).

#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace polyrank {

/// Adds --man, --completions and --options-page, which --help does not show.
/// The app must outlive the use of its options.
void addDocumentOptions(CLI::App &app);

/// The group of the commands of `polyrank` that are tools, which complete their
/// own options.
inline constexpr const char *toolCommands = "Commands";

/// Returns the page in the format of man(7).
std::string manPage(const CLI::App &app);

/// Returns the script by which bash, zsh or fish (`shell`) completes the tool's
/// options and their values.
std::string completions(const CLI::App &app, const std::string &shell);

/// Returns the section of docs/options.md about the tool: a table of each group
/// of its options, in Markdown.
std::string optionsPage(const CLI::App &app);

} // namespace polyrank
