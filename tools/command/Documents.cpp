// The options that print the documents of a command line.

#include "tools/command/Documents.h"

#include "tools/Help.h"
#include "tools/command/Config.h"

namespace polyrank {

// Both are handled before required arguments are checked: they work without a
// file.
void addDocumentOptions(CLI::App &app) {
  app.add_option_function<std::string>(
         "--completions",
         [&app](const std::string &shell) {
           printAndEnd(app, completions(app, shell));
         },
         "Print what this shell completes the options with: bash, zsh or fish")
      ->check(oneOf({"bash", "zsh", "fish"}))
      ->group("The command line")
      ->configurable(false)
      ->type_name("SHELL");
  app.add_flag_callback(
         "--man", [&app] { printAndEnd(app, manPage(app)); },
         "Print the man page")
      ->group("The command line")
      ->configurable(false);
  // For docs/options.md alone: an empty group is hidden.
  app.add_flag_callback("--options-page",
                        [&app] { printAndEnd(app, optionsPage(app)); })
      ->group("")
      ->configurable(false);
}

} // namespace polyrank
