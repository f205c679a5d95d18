// Any text as the file of --config: options are set or a message has its line,
// and what --write-config prints of them sets the same.

#include "tools/command/Config.h"
#include "test/fuzz/Input.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <sstream>

using namespace polyrank;

namespace {

/// An option of every kind.
struct Command {
  Command() {
    addConfigOptions(app);
    app.add_option("plan", plan);
    app.add_option("--steps", steps);
    app.add_option("--rate", rate);
    app.add_option("--log", log);
    app.add_option("--eval-data", data)->take_all();
    app.add_flag("--quiet", quiet);
  }

  /// Returns the error, or nothing.
  std::string parse(std::vector<std::string> arguments) {
    std::reverse(arguments.begin(), arguments.end());
    try {
      app.parse(arguments);
    } catch (const CLI::Error &error) {
      return error.what()[0] ? error.what() : "?";
    }
    return "";
  }
  auto values() const {
    return std::tuple(plan, steps, rate, log, data, quiet);
  }

  CLI::App app{"", "command"};
  std::string plan, log;
  int64_t steps = 0;
  double rate = 0;
  std::vector<std::string> data;
  bool quiet = false;
};

/// Returns what --write-config prints; nothing if TOML cannot express it.
std::string written(Command &command) {
  std::ostringstream out;
  std::streambuf *before = std::cout.rdbuf(out.rdbuf());
  bool isWritten = true;
  try {
    writeConfigIfAsked(command.app);
  } catch (const CLI::ValidationError &) {
    isWritten = false;
  } catch (const CLI::Error &) {
  }
  std::cout.rdbuf(before);
  return isWritten ? out.str() : "";
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string path = fuzz::writeFile("run.toml", fuzz::text(data, size));
  Command first;
  std::string problem = first.parse({"--config", path, "--write-config"});
  if (!problem.empty()) {
    if (problem == "?")
      std::abort(); // a message says something
    return 0;
  }
  std::string text = written(first);
  Command second;
  if (!text.empty() &&
      (!second.parse({"--config", fuzz::writeFile("again.toml", text)})
            .empty() ||
       second.values() != first.values()))
    std::abort();
  // So does the call without the file.
  std::vector<std::string> arguments = effectiveArguments(first.app, "command");
  arguments.erase(arguments.begin());
  Command third;
  if (!third.parse(arguments).empty() || third.values() != first.values())
    std::abort();
  return 0;
}
