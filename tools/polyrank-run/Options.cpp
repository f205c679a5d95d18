// Parses the command line.

#include "tools/polyrank-run/Options.h"

#include "runtime/job/net/JobKey.h"
#include "tools/Help.h"
#include "tools/command/OptionRows.h"
#include "tools/polyrank-run/DataOptions.h"
#include "tools/polyrank-run/OptionTable.h"

#include <fmt/format.h>

namespace polyrank::runtime {
namespace {

/// It works without a plan: it is handled before required arguments are
/// checked.
void addNewKeyOption(CLI::App &app) {
  app.add_option_function<std::string>(
         "--new-key",
         [&app](const std::string &path) {
           if (Result<void> made = net::JobKey::create(path); !made)
             throw CLI::ValidationError(made.error().message);
           printAndEnd(app, fmt::format("wrote {}, which is secret: copy it to "
                                        "all machines, where nobody else may "
                                        "read it\n",
                                        path));
         },
         "Write a new key for jobs of several machines to this file, which "
         "must "
         "not exist, and end")
      ->group("Machines")
      ->configurable(false)
      ->type_name("FILE");
}

} // namespace

std::variant<RunOptions, int> parseOptions(int argc, char **argv) {
  RunOptions options;
  CLI::App app{
      "Runs a plan that polyrank-compile wrote: starts its ranks on this "
      "machine, trains (or runs forward), logs and saves.\n"
      "Today ranks are processes on the CPUs of one machine or of several; "
      "GPUs come later.\n"
      "Exit status: 0 done, 1 the input is wrong, 2 a rank failed or the run "
      "was interrupted, 3 no rank made progress, 4 ended by a signal and "
      "saved, 5 the "
      "disk was full or failed, 6 the loss or weights became NaN (nothing is "
      "saved).",
      "polyrank-run"};
  useHelpFormatter(app);
  OptionTable table = optionTable(options);
  addOptions(app, table);
  CLI::Option *plan = app.get_option("PLAN")->required();
  // A guest takes its run's plan, and a calibration has one of its own.
  for (const char *name : {"--guest-of", "--calibrate"})
    app.get_option(name)->each(
        [plan](const std::string &) { plan->required(false); });
  // The files into which a shell expands an unquoted pattern follow --data.
  std::vector<std::string> more;
  app.add_option("more", more)->expected(-1)->group("");
  addNewKeyOption(app);
  addConfigOptions(app);
  addDocumentOptions(app);
  app.footer("Example:\n"
             "  polyrank-run model.plan --data text.txt --steps 100 \\\n"
             "      --save trained.safetensors --log log.jsonl");
  try {
    app.parse(argc, argv);
    refuseEmptyPaths(app);
    options.given = givenOptions(app);
    refuseContradictions(app, table);
    takeFiles(app, options, more);
    writeConfigIfAsked(app);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  options.arguments = effectiveArguments(app, argv[0]);
  options.commandLine.assign(argv, argv + argc);
  return options;
}

} // namespace polyrank::runtime
