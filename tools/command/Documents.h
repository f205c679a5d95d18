// What is made of a tool's command line beside --help: its man page (--man) and
// the completions of shells (--completions).

#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace polyrank {

/// Adds --man and --completions. The app must outlive its options' use.
void addDocumentOptions(CLI::App &app);

/// The page as man(7) has it.
std::string manPage(const CLI::App &app);

/// What bash, zsh or fish (`shell`) reads to complete the tool's options and
/// their values.
std::string completions(const CLI::App &app, const std::string &shell);

} // namespace polyrank
