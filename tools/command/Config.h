// Options from a TOML file (--config), and the options of a call as such a file
// (--write-config).

#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace polyrank {

/// Adds --config and --write-config. In a file every option has its long name
/// without the dashes, and a positional argument its name in lower case. The
/// command line overrides the file. Unknown names, values of a wrong kind and
/// sections are errors that name the line.
void addConfigOptions(CLI::App &app);

/// Throws if an option that takes a file or a folder was given an empty path,
/// as from an unset shell variable: it would silently read or save nothing.
void refuseEmptyPaths(const CLI::App &app);

/// To be called once everything is parsed and checked. If --write-config was
/// given, prints the file and throws the exception that ends the program.
void writeConfigIfAsked(const CLI::App &app);

/// Returns an equivalent command line without --config, for the program's other
/// processes, which must not read the file a second time.
std::vector<std::string> effectiveArguments(const CLI::App &app,
                                            const std::string &program);

/// Returns " (run.toml, line 3)" if the message begins with an option that is
/// set in the file and not on the command line, else an empty string.
std::string placeInConfig(const CLI::App &app, const std::string &message);

/// Prints `text` on standard output and throws the exception that ends the
/// program.
[[noreturn]] void printAndEnd(const CLI::App &app, const std::string &text);

} // namespace polyrank
