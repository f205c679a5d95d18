// Options from a TOML file (--config), and the options of a call as such a file
// (--write-config).

#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace polyrank {

/// Adds --config and --write-config. In a file every option has its long name
/// without the dashes, and a positional argument its name in small letters;
/// what the command line has wins. Unknown names, values of another kind and
/// sections are errors with the line.
void addConfigOptions(CLI::App &app);

/// Throws where an option that takes a file or a folder was given an empty
/// path, as by a variable of the shell that is not set: it would read or save
/// nothing.
void refuseEmptyPaths(const CLI::App &app);

/// To be called when everything is parsed and checked: prints the file and
/// throws what ends the call where --write-config was given.
void writeConfigIfAsked(const CLI::App &app);

/// A call that means the same as this one, without --config: what the program's
/// other processes are started with, which must not read the file a second
/// time.
std::vector<std::string> effectiveArguments(const CLI::App &app,
                                            const std::string &program);

/// " (run.toml, line 3)" where the message begins with an option that stands in
/// the file and not on the command line, else nothing.
std::string placeInConfig(const CLI::App &app, const std::string &message);

/// Prints `text` on standard output and throws what ends the call.
[[noreturn]] void printAndEnd(const CLI::App &app, const std::string &text);

} // namespace polyrank
