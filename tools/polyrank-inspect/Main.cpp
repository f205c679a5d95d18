// polyrank-inspect prints the tensors, communication and commands of a plan
// without running it.

#include "runtime/device/cpu/OneDnn.h"
#include "runtime/exec/Links.h"
#include "runtime/plan/MemoryTimeline.h"
#include "runtime/plan/PlanReport.h"
#include "runtime/plan/StepTimeline.h"
#include "runtime/report/LayoutsSvg.h"
#include "runtime/report/LogSvg.h"
#include "runtime/report/Messages.h"
#include "support/Json.h"
#include "support/Names.h"
#include "support/OutOfMemory.h"
#include "support/OutputFile.h"
#include "support/Outputs.h"
#include "tools/Help.h"
#include "tools/command/Config.h"
#include "tools/polyrank-inspect/Checkpoint.h"
#include "tools/polyrank-inspect/Compare.h"
#include "tools/polyrank-inspect/Reasons.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <optional>

namespace polyrank::runtime {
namespace {

struct InspectOptions {
  std::string plan, why, memorySvg, layoutsSvg, timelineSvg, trace, times,
      picture;
  std::vector<std::string> logs;
  bool memory = false, communication = false, parameters = false,
       kernels = false, timeline = false, files = false, json = false,
       verify = false;
};

/// Prints one file per line, for scripts.
void printFiles(const PlanReport &report) {
  for (const std::string &path : report.weightFiles)
    fmt::print("weights {}\n", path);
  if (hasCalls(report))
    fmt::print("library {}\n", oneDnnLibrary);
}

/// Prints a line for a rank of each program.
void printPrograms(const PlanReport &report) {
  fmt::print("\nprograms: a rank of each, a step of {:.3f} ms as planned\n",
             1e3 * report.stepSeconds);
  fmt::print("  {:<14}{:>6}{:>13}{:>11}{:>11}{:>10}{:>10}{:>8}\n", "at",
             "ranks", "parameters", "arena", "GFLOP", "compute", "idle",
             "bubble");
  for (const ProgramReport &program : report.programs)
    fmt::print(
        "  {:<14}{:>6}{:>13}{:>11}{:>11.3f}{:>10.3f}{:>10.3f}{:>7.1f}%\n",
        program.place, program.ranks, program.parameterElements,
        bytesText(program.arenaBytes()),
        1e-9 * static_cast<double>(program.allCalls().flops),
        1e3 * program.computeSeconds, 1e3 * program.idleSeconds,
        report.stepSeconds > 0 ? 100 * program.idleSeconds / report.stepSeconds
                               : 0);
}

void printOverview(const PlanReport &report) {
  fmt::print("model         {}\n", report.model);
  fmt::print("mode          {}, compiled by {}\n", report.mode,
             report.compiler);
  auto plural = [](uint64_t count, const char *thing) {
    return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
  };
  fmt::print("ranks         {}{}, {} each\n", report.ranks,
             report.mesh.empty() ? "" : " (" + report.mesh + ")",
             plural(report.threads, "thread"));
  fmt::print("step          {} in {}{}\n",
             plural(report.samplesPerStep, "sample"), report.microbatches,
             report.microbatches == 1 ? " microbatch" : " microbatches");
  if (report.tokensPerSample)
    fmt::print("sample        {}\n", plural(report.tokensPerSample, "token"));
  if (report.programs.size() == 1)
    fmt::print(
        "commands      {} kernel launches, {} products, {} copies{} a step\n",
        report.launches, report.allCalls().calls, report.copies,
        report.loops ? ", " + plural(report.loops, "loop") : "");
  if (!report.learningRates.empty())
    fmt::print("learning rate {}, {}: {}\n", numberText(report.learningRate),
               report.schedule, fmt::join(report.learningRates, ", "));
  if (report.programs.size() == 1)
    fmt::print("products      {:.3f} GFLOP a step on each rank\n",
               1e-9 * static_cast<double>(report.allCalls().flops));
  fmt::print("hash          {}\n", report.hash);
  if (report.programs.size() > 1)
    printPrograms(report);
}

/// Prints arguments; those that differ only in layer numbers are one line.
void printAlike(const std::vector<const HeldArgument *> &all,
                const char *ending) {
  std::vector<std::string> keys;
  std::map<std::string, std::pair<const HeldArgument *, LayerNames>> alike;
  for (const HeldArgument *held : all) {
    std::string key = fmt::format("{}|{}|{}|{}", LayerNames::getKey(held->name),
                                  held->dtype, held->layout, held->trainable);
    auto &[first, names] = alike[key];
    if (!first)
      keys.push_back(key), first = held;
    names.add(held->name);
  }
  for (const std::string &key : keys) {
    const auto &[held, names] = alike.at(key);
    std::string count =
        names.size() > 1 ? fmt::format("{} x ", names.size()) : "";
    std::string line =
        fmt::format("  {:>9} {:<4} {:<23}", bytesText(held->bytes), held->dtype,
                    count + held->layout);
    std::string name =
        names.toString() +
        (held->isParameter && !held->trainable ? " (frozen)" : ending);
    constexpr size_t columns = 80;
    if (line.size() + 1 + name.size() > columns) {
      line.erase(line.find_last_not_of(' ') + 1);
      line += "\n       ";
    }
    fmt::print("{} {}\n", line, name);
  }
}

/// Prints what the ranks of one program hold.
void printHeld(const PlanReport &report, const ProgramReport &program) {
  if (!program.place.empty())
    fmt::print("each rank at {}: {} elements, {} and {} of state\n",
               program.place, program.parameterElements,
               bytesText(program.parameterBytes),
               bytesText(program.stateBytes));
  std::map<std::string, const HeldArgument *> parameters;
  std::vector<const HeldArgument *> listed, others;
  for (const HeldArgument &held : report.held)
    if (held.isParameter && held.place == program.place) {
      parameters[held.name] = &held;
      listed.push_back(&held);
    }
  printAlike(listed, "");

  // States with the same layout as their parameters, by state name.
  std::vector<std::string> names;
  std::map<std::string, std::pair<uint64_t, uint64_t>> sums;
  for (const HeldArgument &held : report.held) {
    if (held.isParameter || held.place != program.place)
      continue;
    auto parameter = parameters.find(held.stateOf);
    if (parameter == parameters.end() ||
        parameter->second->layout != held.layout ||
        !held.name.starts_with(held.stateOf + ".")) {
      others.push_back(&held);
      continue;
    }
    std::string name = held.name.substr(held.stateOf.size() + 1);
    auto &[count, bytes] = sums[name];
    if (!count++)
      names.push_back(name);
    bytes += held.bytes;
  }
  for (const std::string &name : names)
    fmt::print("  {:>9} of state {} of {} parameters, laid out as they are\n",
               bytesText(sums[name].second), name, sums[name].first);
  printAlike(others, " (state)");
}

void printParameters(const PlanReport &report) {
  if (report.programs.size() == 1)
    fmt::print(
        "\nparameters: {} elements; each rank holds {} and {} of state\n",
        report.parameterElements, bytesText(report.parameterBytes),
        bytesText(report.stateBytes));
  else
    fmt::print("\nparameters: {} elements\n", report.parameterElements);
  fmt::print("  {:>9} {:<4} {:<23} {}\n", "each rank", "type", "layout",
             "name");
  for (const ProgramReport &program : report.programs)
    printHeld(report, program);
}

/// Prints the arena's contents at its peak, by module and phase.
void printPeak(const PeakReport &peak) {
  if (peak.lines.empty())
    return;
  fmt::print("most is held in segment '{}', {}: {} ({} bytes)\n", peak.segment,
             peak.phase, bytesText(peak.bytes), peak.bytes);
  fmt::print("  at {}\n", peak.origin);
  fmt::print("  {:<28}{:>16}  {}\n", "written by", "bytes", "module");
  constexpr size_t shown = 20;
  uint64_t rest = 0;
  for (size_t i = 0; i < peak.lines.size(); ++i) {
    const PeakReport::Line &line = peak.lines[i];
    if (i >= shown) {
      rest += line.bytes;
      continue;
    }
    constexpr size_t columns = 80, before = 2 + 28 + 16;
    bool fits = before + 2 + line.module.size() <= columns;
    fmt::print("  {:<28}{:>16}{}{}\n", line.kind, line.bytes,
               line.module.empty() ? ""
               : fits              ? "  "
                                   : "\n       ",
               line.module);
  }
  if (rest)
    fmt::print("  {:<28}{:>16}  (--json has each)\n",
               fmt::format("{} smaller ones", peak.lines.size() - shown), rest);
}

void printMemory(const ProgramReport &report) {
  uint64_t total = report.arenaBytes();
  fmt::print("\nmemory of each rank{}: {} ({} bytes)\n",
             report.place.empty() ? "" : " at " + report.place,
             bytesText(total), total);
  fmt::print("  {:<28}{:>16}\n", "shared with peers", report.sharedBytes);
  fmt::print("  {:<28}{:>16}\n", "private", report.privateBytes);
  if (report.lowerBound)
    fmt::print("  {:<28}{:>16}  (gap {:.2f} %)\n", "lower bound",
               report.lowerBound, report.arenaGap());
  fmt::print("by kind, when most is held, and the most of each at any time:\n");
  for (int use = 0; use < numMemoryUses; ++use)
    if (auto [atPeak, most] = report.memory[use]; most)
      fmt::print("  {:<28}{:>16}{:>16}\n", nameOf(MemoryUse(use)), atPeak,
                 most);
  fmt::print("  {:<28}{:>16}\n", "unused then", report.unusedBytes());
  printPeak(report.peak);
  fmt::print("not in the arena, at most:\n  {:<28}{:>16}\n",
             "code and data of the program", programBytes);
  if (report.libraryBytes())
    fmt::print("  {:<28}{:>16}\n", "what libraries allocate",
               report.libraryBytes());
}

/// Prints the communication of the ranks of one program.
void printCommunication(const PlanReport &report, const std::string &place) {
  if (!place.empty())
    fmt::print("at {}:\n", place);
  fmt::print("  {:<14}{:<14}{:<10}{:>6}{:>7}{:>13}{:>14}\n", "kind", "axes",
             "segment", "ranks", "count", "bytes", "sent bytes");
  uint64_t count = 0, started = 0, payload = 0, sent = 0;
  for (const CommunicationLine &line : report.communication) {
    if (line.place != place)
      continue;
    fmt::print("  {:<14}{:<14}{:<10}{:>6}{:>7}{:>13}{:>14}\n", line.kind,
               line.axes, line.segment, line.groupSize, line.count,
               line.payload, line.sent);
    count += line.count, started += line.started, payload += line.payload,
        sent += line.sent;
  }
  fmt::print("  {:<44}{:>7}{:>13}{:>14}\n", "in all", count, payload, sent);
  if (started)
    fmt::print("  {} of {} are started, and waited for later\n", started,
               count);
}

void printCommunication(const PlanReport &report) {
  fmt::print("\ncommunication of each rank per step:\n");
  if (report.communication.empty()) {
    fmt::print("  none\n");
    return;
  }
  for (const ProgramReport &program : report.programs)
    printCommunication(report, program.place);
}

void printKernels(const PlanReport &report) {
  fmt::print("\nkernels: {}, for {}\n", report.kernels.size(),
             report.cpu.empty() ? "any CPU" : report.cpu);
  for (const KernelLine &kernel : report.kernels)
    fmt::print("  {:<48}{:>8} launches a step\n", kernel.symbol,
               kernel.launches);
}

double milliseconds(int64_t picoseconds) {
  return static_cast<double>(picoseconds) * 1e-9;
}

void printOverlap(const StepTimeline &timeline) {
  if (timeline.overlap.empty())
    return;
  fmt::print("  {:<16}{:<16}{:>6}{:>9}{:>11}{:>11}{:>8}\n", "kind", "axes",
             "count", "started", "sent", "ms", "hidden");
  for (const OverlapLine &line : timeline.overlap)
    fmt::print("  {:<16}{:<16}{:>6}{:>9}{:>11}{:>11.3f}{:>7.0f}%\n", line.kind,
               line.axes, line.count, line.started, bytesText(line.bytes),
               milliseconds(line.time),
               line.time ? 100.0 * static_cast<double>(line.hidden) /
                               static_cast<double>(line.time)
                         : 0);
}

/// Prints times by the model by which the compiler orders commands.
void printOverlap(const PlanTimeline &timeline) {
  fmt::print("\nschedule: a step takes {:.3f} ms as planned, at least {:.3f}\n",
             milliseconds(timeline.makespan),
             milliseconds(timeline.lowerBound));
  for (size_t number = 0; number < timeline.programs.size(); ++number) {
    const StepTimeline &program = timeline.programs[number];
    fmt::print("{}  {:.3f} ms of computation, {:.3f} ms of communication{}\n",
               program.place.empty() ? "" : "at " + program.place + ":",
               milliseconds(program.computation),
               milliseconds(program.communication),
               timeline.programs.size() == 1
                   ? ""
                   : fmt::format(", {:.3f} ms idle: a bubble of {:.1f} %",
                                 milliseconds(timeline.idle(number)),
                                 100 * timeline.bubble(number)));
    printOverlap(program);
  }
}

Result<void> writeText(const std::string &path, const std::string &text) {
  POLYRANK_ASSIGN(file, OutputFile::create(path, text.size()));
  if (Result<void> written =
          writeAt(file.descriptor(), path, 0, text.data(), text.size());
      !written)
    return written;
  return file.commit();
}

Result<void> checkFiles(const InspectOptions &options) {
  std::vector<OutputUse> outputs;
  for (auto &[option, path] : {std::pair("--memory-svg", &options.memorySvg),
                               {"--layouts-svg", &options.layoutsSvg},
                               {"--timeline-svg", &options.timelineSvg}})
    if (!path->empty())
      outputs.push_back({option, *path, FileKind::Svg});
  if (!options.times.empty())
    outputs.push_back({"--times", options.times, FileKind::Times});
  const InputUse inputs[] = {{"the plan", options.plan},
                             {"the trace (--compare)", options.trace}};
  return checkOutputs(inputs, outputs);
}

uint64_t arenaOf(const plan::Program &program) {
  return program.shared_size() + program.private_size();
}

Result<void> writePictures(const InspectOptions &options,
                           const LoadedPlan &plan) {
  if (!options.memorySvg.empty()) {
    uint32_t most = 0; // the program whose ranks hold most
    for (uint32_t number = 1; number < plan.programs(); ++number)
      if (arenaOf(plan.program(number)) > arenaOf(plan.program(most)))
        most = number;
    if (Result<void> written = writeText(
            options.memorySvg, memorySvg(timelineOf(plan, most), plan, most));
        !written)
      return written;
  }
  if (!options.timelineSvg.empty())
    if (Result<void> written = writeText(
            options.timelineSvg, scheduleSvg(planTimelineOf(plan), plan));
        !written)
      return written;
  if (options.layoutsSvg.empty())
    return {};
  return writeText(options.layoutsSvg, layoutsSvg(plan));
}

/// Draws the logs of trainings. Needs no plan.
Result<void> drawLogs(const InspectOptions &options) {
  std::vector<InputUse> inputs;
  std::vector<LoggedRun> runs;
  for (const std::string &log : options.logs)
    inputs.push_back({"the log (--plot)", log});
  const OutputUse output[] = {{"-o", options.picture, FileKind::Svg}};
  if (Result<void> safe = checkOutputs(inputs, output); !safe)
    return safe;
  for (const std::string &log : options.logs) {
    POLYRANK_ASSIGN(run, readLoggedRun(log));
    runs.push_back(std::move(run));
  }
  return writeText(options.picture, logSvg(runs));
}

Result<void> inspect(const InspectOptions &options) {
  if (!options.logs.empty())
    return drawLogs(options);
  if (isFolder(options.plan))
    return inspectCheckpoint(options.plan, options.json, options.verify);
  if (options.verify)
    return Error{
        "--verify is for checkpoints; a plan is verified whenever it is "
        "read"};
  Result<LoadedPlan> plan = loadPlan(options.plan);
  if (!plan)
    return plan.error();
  PlanReport report = reportOf(*plan);
  if (Result<void> safe = checkFiles(options); !safe)
    return safe;
  if (Result<void> written = writePictures(options, *plan); !written)
    return written;
  std::optional<TraceFile> trace;
  if (!options.trace.empty()) {
    POLYRANK_ASSIGN(read, readTrace(options.trace, *plan));
    trace = std::move(read);
  }
  if (!options.times.empty()) {
    StepTimes times =
        trace ? measuredTimesOf(*plan, *trace) : plannedTimesOf(*plan);
    if (Result<void> written =
            writeText(options.times,
                      timesText(times, *plan, trace ? "measured" : "planned"));
        !written)
      return written;
  }
  if (trace) {
    POLYRANK_ASSIGN(links, Links::parse(Mesh(*plan->plan), trace->links));
    Comparison comparison =
        compare(*plan, *trace, links.timesOver(plannedTimesOf(*plan), *plan));
    if (options.json)
      fmt::print("{}", toText(toJson(comparison)));
    else
      printComparison(comparison);
    return {};
  }
  if (!options.why.empty() && options.json) {
    std::erase_if(report.reasons, [&](const CollectiveReason &reason) {
      return !mentions(reason, options.why);
    });
    if (report.reasons.empty())
      return matchesNothing(reportOf(*plan), options.why);
  }
  if (options.json) {
    fmt::print("{}", toText(toJson(report)));
    return {};
  }
  if (!options.why.empty())
    return printReasons(report, options.why);
  if (options.files) {
    printFiles(report);
    return {};
  }
  bool some = options.memory || options.communication || options.parameters ||
              options.kernels || options.timeline;
  bool all = !some && options.memorySvg.empty() && options.layoutsSvg.empty() &&
             options.timelineSvg.empty() && options.times.empty();
  if (all)
    printOverview(report);
  if (all || options.parameters)
    printParameters(report);
  if (all || options.memory)
    for (const ProgramReport &program : report.programs)
      printMemory(program);
  if (all || options.communication)
    printCommunication(report);
  if (all || options.timeline)
    printOverlap(planTimelineOf(*plan));
  if (all || options.kernels)
    printKernels(report);
  return {};
}

} // namespace
} // namespace polyrank::runtime

int main(int argc, char **argv) {
  using namespace polyrank;
  using namespace polyrank::runtime;
  takeStandardDescriptors();
  polyrank::endWhenOutOfMemory("polyrank-inspect");
  InspectOptions options;
  CLI::App app{"Shows what a plan holds, moves and runs. Without an option: "
               "everything but the reasons.\n"
               "Exit status: 0 done, 1 the input is wrong.",
               "polyrank-inspect"};
  polyrank::useHelpFormatter(app);
  auto *plan =
      app.add_option(
             "PLAN", options.plan,
             "The plan file; or a checkpoint, or a folder of them: what "
             "is in it, and whether it is whole")
          ->type_name("FILE");
  app.add_flag("--parameters", options.parameters,
               "Parameters and state: layout and bytes on each rank; alike "
               "layers in one line");
  app.add_flag("--memory", options.memory,
               "The arena of each rank by kind, its lower bound, and what is "
               "held when most is, by module and phase");
  app.add_option("--memory-svg", options.memorySvg,
                 "Write a picture of the arena over a step, of the ranks that "
                 "hold most: every value, when and where")
      ->type_name("FILE");
  app.add_option("--layouts-svg", options.layoutsSvg,
                 "Write a picture of which rank holds what of each layer")
      ->type_name("FILE");
  app.add_flag("--comm", options.communication,
               "Collectives, sends and receives by kind and set of axes: count "
               "and bytes per step");
  app.add_option("--timeline-svg,--schedule", options.timelineSvg,
                 "Write a picture of what a rank of each program does when: a "
                 "row for what it computes and one for each group that it "
                 "communicates in")
      ->type_name("FILE");
  app.add_flag("--timeline,--overlap", options.timeline,
               "How long a step takes as planned, and how much of each kind of "
               "communication the rank computes meanwhile");
  app.add_option("--compare", options.trace,
                 "A trace that polyrank-run --trace wrote of this plan: what "
                 "was planned and what was measured side by side, by queue, "
                 "kind of communication and op of the model, worst first")
      ->type_name("TRACE");
  app.add_option("--times", options.times,
                 "Write how long each command takes that a rank computes, for "
                 "polyrank-run --rehearse: as planned, or with --compare the "
                 "least that was measured")
      ->type_name("FILE");
  app.add_flag("--kernels", options.kernels,
               "Generated kernels and how often they run");
  app.add_option("--why", options.why,
                 "Why values are moved: from which layout to which, and which "
                 "op and constraint forced it; with NAME only where value, op, "
                 "axes or constraint contain this text or match this pattern")
      ->type_name("[NAME]")
      ->expected(0, 1)
      ->default_str("*");
  app.add_flag("--files", options.files,
               "What a run needs beside the plan, one a line: 'weights' with "
               "the path from the plan's folder, 'library' with its name");
  auto *logs = app.add_option("--plot,--log", options.logs,
                              "A log that polyrank-run --log wrote: draw its "
                              "loss with the losses of "
                              "evaluations, learning rate and throughput over "
                              "the steps. Several logs "
                              "come into one picture: repeat the option")
                   ->type_name("FILE")
                   ->expected(1)
                   ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  auto *picture =
      app.add_option("-o,--output", options.picture,
                     "Where the picture of --plot is written, as SVG")
          ->type_name("FILE");
  logs->needs(picture)->excludes(plan);
  picture->needs(logs);
  app.add_flag("--json", options.json,
               "Everything as one JSON object; with --why NAME the "
               "collectives that have to do with it. docs/reports.md has the "
               "fields");
  app.add_flag("--verify,--check", options.verify,
               "Of a checkpoint: read everything and compare it with its "
               "checksums");
  polyrank::addDocumentOptions(app);
  for (const char *option : {"--parameters", "--memory", "--comm", "--timeline",
                             "--kernels", "--files", "--why"})
    app.get_option("--compare")->excludes(option);
  app.footer("Example:\n  polyrank-inspect model.plan --memory --comm\n"
             "  polyrank-inspect --plot a.jsonl --plot b.jsonl -o runs.svg");
  try {
    app.parse(argc, argv);
    polyrank::refuseEmptyPaths(app);
    if (options.plan.empty() && options.logs.empty())
      throw CLI::RequiredError("PLAN");
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  try {
    if (Result<void> result = inspect(options); !result) {
      fmt::print(stderr, "polyrank-inspect: {}\n", result.error().message);
      return 1;
    }
    if (!print("")) {
      fmt::print(stderr,
                 "polyrank-inspect: cannot write to standard output: {}\n",
                 std::strerror(errno));
      return 2;
    }
    return 0;
  } catch (const std::exception &exception) {
    fmt::print(stderr, "polyrank-inspect: {}\n", exception.what());
    return 2;
  }
}
