// The options of polyrank-inspect.

#include "tools/polyrank-inspect/Options.h"

#include "support/OptionTable.h"
#include "tools/Help.h"
#include "tools/command/OptionRows.h"

namespace polyrank::runtime {
namespace {

OptionGroup reportOptions(InspectOptions &options) {
  return {"Reports of a plan",
          {
              {"--parameters", "", &options.parameters,
               "Parameters and state: layout and bytes on each rank; alike "
               "layers in one line"},
              {"--memory", "", &options.memory,
               "The arena of each rank by kind, its lower bound, and what is "
               "held when most is, by module and phase"},
              {"--comm", "", &options.communication,
               "Collectives, sends and receives by kind and set of axes: count "
               "and bytes per step"},
              {"--machines",
               "N",
               &options.machines,
               "What crosses machines in a step if N of them share the ranks",
               {.check = between(int64_t(1), int64_t(1) << 20)}},
              {"--timeline,--overlap", "", &options.timeline,
               "How long a step takes as planned, and how much of each kind of "
               "communication the rank computes meanwhile"},
              {"--kernels", "", &options.kernels,
               "Generated kernels and how often they run"},
              {"--why",
               "[NAME]",
               &options.why,
               "Why values are moved: from which layout to which, and which op "
               "and constraint forced it; with NAME only where value, op, axes "
               "or constraint contain this text or match this pattern",
               {.otherwise = "*"}},
              {"--files", "", &options.files,
               "What a run needs beside the plan, one a line: 'weights' with "
               "the path from the plan's folder, 'library' with its name"},
              {"--compare",
               "TRACE",
               &options.trace,
               "A trace that polyrank-run --trace wrote of this plan: what was "
               "planned and what was measured side by side, by queue, kind of "
               "communication and op of the model, worst first",
               {.excludes = {"--parameters", "--memory", "--comm", "--machines",
                             "--timeline", "--kernels", "--files", "--why"}}},
              {"--json", "", &options.json,
               "Everything as one JSON object; with --why NAME the collectives "
               "that have to do with it. docs/reports.md has the fields"},
          }};
}

OptionGroup fileOptions(InspectOptions &options) {
  return {"Files",
          {
              {"--memory-svg", "FILE", &options.memorySvg,
               "Write a picture of the arena over a step, of the ranks that "
               "hold most: every value, when and where"},
              {"--layouts-svg", "FILE", &options.layoutsSvg,
               "Write a picture of which rank holds what of each layer"},
              {"--timeline-svg,--schedule", "FILE", &options.timelineSvg,
               "Write a picture of what a rank of each program does when: a "
               "row for what it computes and one for each group that it "
               "communicates in"},
              {"--times", "FILE", &options.times,
               "Write how long each command takes that a rank computes, for "
               "polyrank-run --rehearse: as planned, or with --compare the "
               "least that was measured"},
              {"--plot,--log",
               "FILE",
               &options.logs,
               "A log that polyrank-run --log wrote: draw its loss with the "
               "losses of evaluations, learning rate and throughput over the "
               "steps. Several logs come into one picture: repeat the option",
               {.needs = "--output", .excludes = {"PLAN"}}},
              {"-o,--output",
               "FILE",
               &options.picture,
               "Where the picture of --plot is written, as SVG",
               {.needs = "--plot"}},
              {"--verify,--check", "", &options.verify,
               "Of a checkpoint: read everything and compare it with its "
               "checksums"},
          }};
}

OptionTable optionTable(InspectOptions &options) {
  return {{"Arguments",
           {{"PLAN", "FILE", &options.plan,
             "The plan file; or a checkpoint, or a folder of them: what is in "
             "it, and whether it is whole"}}},
          reportOptions(options),
          fileOptions(options)};
}

} // namespace

std::variant<InspectOptions, int> parseOptions(int argc, char **argv) {
  InspectOptions options;
  CLI::App app{"Shows what a plan holds, moves and runs. Without an option: "
               "everything but the reasons.\n"
               "Exit status: 0 done, 1 the input is wrong.",
               "polyrank-inspect"};
  useHelpFormatter(app);
  OptionTable table = optionTable(options);
  addOptions(app, table);
  addDocumentOptions(app);
  app.footer("Example:\n  polyrank-inspect model.plan --memory --comm\n"
             "  polyrank-inspect --plot a.jsonl --plot b.jsonl -o runs.svg");
  try {
    app.parse(argc, argv);
    refuseEmptyPaths(app);
    if (options.plan.empty() && options.logs.empty())
      throw CLI::RequiredError("PLAN");
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  return options;
}

} // namespace polyrank::runtime
