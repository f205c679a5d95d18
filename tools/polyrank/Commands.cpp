// Finds the tool of a command and starts it.

#include "tools/polyrank/Commands.h"

#include "tools/Help.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <iostream>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace polyrank {
namespace {

struct Command {
  const char *name, *about;
  bool isPython = false; // a part of the Python module
};

constexpr std::array commands{
    Command{"compile", "Compile an exported model to a plan"},
    Command{"run", "Train with a plan, or run it forward"},
    Command{"inspect", "Show what a plan or a checkpoint holds"},
    Command{"tokenize", "Make token files of text, with a tokenizer.json",
            true}};

std::vector<std::string> commandNames() {
  std::vector<std::string> names;
  for (const Command &command : commands)
    names.push_back(command.name);
  return names;
}

/// Prints the message as the tools do, and returns the exit status of wrong
/// input.
int fail(const std::string &message) {
  std::cerr << "polyrank: " << message << "\n";
  return 1;
}

/// Replaces this process. Returns only if that fails.
void execute(const std::string &path, std::vector<std::string> arguments) {
  std::vector<char *> pointers;
  for (std::string &argument : arguments)
    pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  execvp(path.c_str(), pointers.data());
}

/// Starts a command of the Python module: with the Python beside this program,
/// where pip has installed both, else with that on PATH.
int becomePython(const std::string &command,
                 std::vector<std::string> arguments) {
  std::string program = fmt::format(
      "import sys\n"
      "try:\n"
      "    from polyrank.{0} import main\n"
      "except ModuleNotFoundError as error:\n"
      "    if (error.name or '').split('.')[0] != 'polyrank':\n"
      "        raise\n"
      "    sys.exit('polyrank: {0} is a part of the Python module polyrank, "
      "which ' + sys.executable + ' does not have: pip install the wheel '\n"
      "             '(tools/wheel.sh builds it), or set PYTHONPATH to the "
      "folder python of the sources')\n"
      "main()\n",
      command);
  std::error_code error;
  std::filesystem::path beside =
      std::filesystem::read_symlink("/proc/self/exe", error).parent_path() /
      "python3";
  bool isBeside = !error && std::filesystem::exists(beside, error);
  arguments.insert(arguments.begin(), {"python3", "-c", program});
  execute(isBeside ? beside.string() : "python3", std::move(arguments));
  return fail(fmt::format("{} needs Python, and python3 cannot be started: {}",
                          command, std::strerror(errno)));
}

/// Starts the tool with these arguments instead of this process.
int become(const std::string &command, std::vector<std::string> arguments) {
  std::string tool = "polyrank-" + command;
  // The link leads to the file itself, also if polyrank was called through a
  // link from elsewhere.
  std::error_code error;
  std::filesystem::path self =
      std::filesystem::read_symlink("/proc/self/exe", error);
  if (error)
    return fail("cannot tell where it is itself (/proc/self/exe: " +
                error.message() + "): call " + tool + " instead");
  std::filesystem::path path = self.parent_path() / tool;
  arguments.insert(arguments.begin(), tool);
  execute(path.string(), std::move(arguments));
  return fail(fmt::format("cannot start '{}': {}; {} belongs into the folder "
                          "of polyrank",
                          path.string(), std::strerror(errno), tool));
}

/// Parses a command line without a command: help, the version and documents.
/// Without arguments it prints the help.
int printAbout(std::vector<std::string> arguments) {
  CLI::App app{"Compiles exported models for parallel training, and trains "
               "them. Each command is also a tool of its own: polyrank run is "
               "polyrank-run. polyrank COMMAND --help has its options.\n"
               "Exit status: that of the command; 1 if there is no such "
               "command.",
               "polyrank"};
  useHelpFormatter(app);
  for (const Command &command : commands)
    app.add_subcommand(command.name, command.about)
        ->group(command.isPython ? "Commands of the Python module"
                                 : toolCommands);
  addDocumentOptions(app);
  app.footer("Example:\n"
             "  polyrank compile model.onnx -o model.plan --mesh data=2 \\\n"
             "      --loss 'cross_entropy(logits,labels)'\n"
             "  polyrank run model.plan --data text.txt --steps 100 \\\n"
             "      --save trained.safetensors");
  try {
    std::reverse(arguments.begin(), arguments.end()); // as CLI11 takes them
    app.parse(std::move(arguments));
    printAndEnd(app, app.help());
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
}

} // namespace

int runCommand(int argc, char **argv) {
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  if (!arguments.empty() && arguments[0] == "help") {
    arguments.erase(arguments.begin());
    arguments.resize(std::min(arguments.size(), size_t(1)));
    arguments.push_back("--help");
  }
  if (arguments.empty() || arguments[0].starts_with("-"))
    return printAbout(arguments);
  std::string name = arguments[0];
  std::vector<std::string> known = commandNames();
  // Tools are also found by their whole names.
  std::string_view prefix = "polyrank-";
  if (name.starts_with(prefix))
    name.erase(0, prefix.size());
  if (std::find(known.begin(), known.end(), name) == known.end())
    return fail(fmt::format("there is no command '{}'{}; the commands are {} "
                            "(see --help)",
                            arguments[0], nearestWords(name, known),
                            fmt::join(known, ", ")));
  arguments.erase(arguments.begin());
  bool isPython =
      std::find_if(commands.begin(), commands.end(), [&](const Command &each) {
        return each.name == name;
      })->isPython;
  return isPython ? becomePython(name, std::move(arguments))
                  : become(name, std::move(arguments));
}

} // namespace polyrank
