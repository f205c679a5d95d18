// The command line of polyrank-compile.

#include "tools/polyrank-compile/Options.h"

#include "compiler/driver/OptionTable.h"
#include "tools/Help.h"
#include "tools/command/OptionRows.h"

std::variant<polyrank::driver::Options, int>
polyrank::driver::parseOptions(int argc, char **argv) {
  Options options;
  CLI::App app{
      "Compiles an exported model into a plan for the ranks of a mesh.\n"
      "Today ranks are processes on the CPUs of one machine or of several; "
      "GPUs "
      "come later.\n"
      "Exit status: 0 done, 1 the input is wrong (nothing is written).",
      "polyrank-compile"};
  useHelpFormatter(app);
  OptionTable table = optionTable(options);
  addOptions(app, table);
  app.get_option("MODEL")->required();
  addConfigOptions(app);
  addDocumentOptions(app);
  app.footer(
      "Example:\n"
      "  polyrank-compile model.onnx -o model.plan --mesh data=2 \\\n"
      "      --loss 'cross_entropy(logits,labels)' \\\n"
      "      --optimizer 'adamw(lr=1e-3)'\n"
      "polyrank-compile model.onnx --describe prints the command for your "
      "model.");
  try {
    app.parse(argc, argv);
    refuseEmptyPaths(app);
    refuseContradictions(app, table);
    writeConfigIfAsked(app);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  options.given = givenOptions(app);
  return options;
}
