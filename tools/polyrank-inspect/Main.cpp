// polyrank-inspect prints the tensors, communication and commands of a plan
// without running it.

#include "runtime/device/MakeDevice.h"
#include "runtime/exec/Links.h"
#include "runtime/plan/MachineTraffic.h"
#include "runtime/plan/MemoryTimeline.h"
#include "runtime/plan/PlanReport.h"
#include "runtime/plan/Queues.h"
#include "runtime/plan/StepTimeline.h"
#include "runtime/report/LayoutsSvg.h"
#include "runtime/report/LogSvg.h"
#include "runtime/report/Messages.h"
#include "runtime/report/OverlapText.h"
#include "support/ByteText.h"
#include "support/Json.h"
#include "support/LearningRate.h"
#include "support/Names.h"
#include "support/OutOfMemory.h"
#include "support/OutputFile.h"
#include "support/Outputs.h"
#include "support/Places.h"
#include "tools/polyrank-inspect/Checkpoint.h"
#include "tools/polyrank-inspect/Compare.h"
#include "tools/polyrank-inspect/Options.h"
#include "tools/polyrank-inspect/Reasons.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <optional>

namespace polyrank::runtime {
namespace {

/// Prints one file per line, for scripts.
Result<void> printFiles(const LoadedPlan &plan, const PlanReport &report) {
  POLYRANK_ASSIGN(libraries, librariesOf(*plan.plan));
  for (const std::string &path : report.weightFiles)
    fmt::print("weights {}\n", path);
  for (const std::string &library : libraries)
    fmt::print("library {}\n", library);
  return {};
}

/// Prints a line for a rank of each program, one for those that are alike.
void printPrograms(const PlanReport &report) {
  fmt::print("\nprograms: a rank of each, a step of {:.3f} ms as planned\n",
             1e3 * report.stepSeconds);
  fmt::print("  {:<14}{:>6}{:>13}{:>11}{:>11}{:>10}{:>10}{:>8}\n", "at",
             "ranks", "parameters", "memory", "GFLOP", "compute", "idle",
             "bubble");
  std::vector<std::pair<std::string, std::vector<std::string>>> lines;
  for (const ProgramReport &program : report.programs) {
    std::string numbers = fmt::format(
        "{:>6}{:>13}{:>11}{:>11.3f}{:>10.3f}{:>10.3f}{:>7.1f}%", program.ranks,
        program.parameterElements, bytesText(program.valueBytes()),
        1e-9 * static_cast<double>(program.allCalls().flops),
        1e3 * program.computeSeconds, 1e3 * program.idleSeconds,
        report.stepSeconds > 0 ? 100 * program.idleSeconds / report.stepSeconds
                               : 0);
    if (lines.empty() || lines.back().first != numbers)
      lines.push_back({numbers, {}});
    lines.back().second.push_back(program.place);
  }
  for (const auto &[numbers, places] : lines)
    fmt::print("  {:<14}{}\n", joinPlaces(places), numbers);
}

void printMachine(const PlanReport &report) {
  if (!report.machine.empty())
    fmt::print("planned for   {}\n", report.machine);
}

void printOverview(const PlanReport &report) {
  fmt::print("model         {}\n", report.model);
  fmt::print("mode          {}, compiled by {}\n", report.mode,
             report.compiler);
  printMachine(report);
  auto plural = [](uint64_t count, const char *thing) {
    return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
  };
  fmt::print("ranks         {}{}, {} each\n", report.ranks,
             report.mesh.empty() ? "" : " (" + report.mesh + ")",
             plural(report.threads, "thread"));
  fmt::print("step          {} in {}{}\n",
             plural(report.samplesPerStep, "sample"), report.microbatches,
             report.microbatches == 1 ? " microbatch" : " microbatches");
  fmt::print("denormals     {}\n",
             report.denormals == "flush" ? "flushed to zero" : "kept");
  if (report.tokensPerSample)
    fmt::print("sample        {}\n", plural(report.tokensPerSample, "token"));
  const auto &calls = report.calls;
  const CallCount &products = calls[size_t(plan::CallKind::gemm)],
                  &forward = calls[size_t(plan::CallKind::attention)],
                  &backward = calls[size_t(plan::CallKind::attention_grad)];
  uint64_t attentions = forward.calls + backward.calls;
  if (report.programs.size() == 1)
    fmt::print(
        "commands      {} kernel launches, {} products, {}{} copies{} a step\n",
        report.launches, products.calls,
        attentions ? fmt::format("{} attentions, ", attentions) : "",
        report.copies, report.loops ? ", " + plural(report.loops, "loop") : "");
  if (!report.learningRates.empty())
    fmt::print("learning rate {}, {}: {}\n", numberText(report.learningRate),
               report.schedule, fmt::join(report.learningRates, ", "));
  if (report.programs.size() == 1)
    fmt::print("products      {:.3f} GFLOP a step on each rank\n",
               1e-9 * static_cast<double>(products.flops));
  if (report.programs.size() == 1 && attentions)
    fmt::print("attention     {:.3f} GFLOP a step on each rank\n",
               1e-9 * static_cast<double>(forward.flops + backward.flops));
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
  uint64_t total = report.valueBytes();
  fmt::print("\nmemory of each rank{}: {} ({} bytes)\n",
             report.place.empty() ? "" : " at " + report.place,
             bytesText(total), total);
  fmt::print("  {:<28}{:>16}\n", "shared with peers", report.sharedBytes);
  fmt::print("  {:<28}{:>16}\n", "private", report.privateBytes);
  if (report.channelBytes)
    fmt::print("  {:<28}{:>16}\n", "channels, of the communicator",
               report.channelBytes);
  if (report.lowerBound)
    fmt::print("  {:<28}{:>16}  (gap {:.2f} %)\n", "lower bound",
               report.lowerBound, report.valueGap());
  fmt::print("by kind, when most is held, and the most of each at any time:\n");
  for (int use = 0; use < numMemoryUses; ++use)
    if (auto [atPeak, most] = report.memory[use]; most)
      fmt::print("  {:<28}{:>16}{:>16}\n", nameOf(MemoryUse(use)), atPeak,
                 most);
  fmt::print("  {:<28}{:>16}\n", "unused then", report.unusedBytes());
  printPeak(report.peak);
  fmt::print("besides these, at most:\n  {:<28}{:>16}\n",
             "code and data of the program", programBytes);
  if (report.libraryBytes())
    fmt::print("  {:<28}{:>16}\n", "what libraries allocate",
               report.libraryBytes());
}

/// Prints the communication of the ranks of one program.
void printCommunication(const PlanReport &report, const std::string &place) {
  if (!place.empty())
    fmt::print("at {}:\n", place);
  fmt::print("  {:<14}{:<12}{:<10}{:<5}{:>6}{:>6}{:>12}{:>13}\n", "kind",
             "axes", "segment", "type", "ranks", "count", "bytes",
             "sent bytes");
  uint64_t count = 0, started = 0, payload = 0, sent = 0;
  for (const CommunicationLine &line : report.communication) {
    if (line.place != place)
      continue;
    fmt::print("  {:<14}{:<12}{:<10}{:<5}{:>6}{:>6}{:>12}{:>13}\n", line.kind,
               line.axes, line.segment, line.type, line.groupSize, line.count,
               line.payload, line.sent);
    count += line.count, started += line.started, payload += line.payload,
        sent += line.sent;
  }
  fmt::print("  {:<47}{:>6}{:>12}{:>13}\n", "in all", count, payload, sent);
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

/// Prints how a GPU runs a kernel.
void printCode(const KernelLine &kernel) {
  if (kernel.code.empty())
    return;
  fmt::print("    {}, {} blocks of {} threads, {} shared bytes, {} requested "
             "of {}\n",
             kernel.kind, kernel.blocks, kernel.threads, kernel.sharedBytes,
             bytesText(kernel.requestedBytes), bytesText(kernel.bytes));
  for (const KernelCode &code : kernel.code)
    if (code.registers)
      fmt::print("    {:<8} {:>3} registers, {} bytes spilled, {} of stack, {} "
                 "blocks at a time: {:.2f} waves, {} in flight\n",
                 code.machine, code.registers, code.spilledBytes,
                 code.stackBytes, code.residentBlocks, code.waves,
                 bytesText(code.bytesInFlight));
}

void printKernels(const PlanReport &report) {
  fmt::print("\nkernels: {}, in {}\n", report.kernels.size(),
             report.images.size() == 1
                 ? "one image"
                 : fmt::format("{} images", report.images.size()));
  for (const ImageLine &image : report.images)
    fmt::print("  {:<8}{:<8}{:<24}{:>12}\n", image.target, image.format,
               image.machine, bytesText(image.bytes));
  for (const KernelLine &kernel : report.kernels) {
    fmt::print("  {:<48}{:>8} launches a step\n", kernel.symbol,
               kernel.launches);
    printCode(kernel);
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
  std::optional<MachineTraffic> traffic;
  if (options.machines) {
    POLYRANK_ASSIGN(counted, machineTrafficOf(*plan, *options.machines));
    traffic = std::move(counted);
  }
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
    nlohmann::ordered_json json = toJson(report);
    if (traffic)
      json["machines"] = toJson(*traffic);
    fmt::print("{}", toText(json));
    return {};
  }
  if (!options.why.empty())
    return printReasons(report, options.why);
  if (options.files)
    return printFiles(*plan, report);
  bool some = options.memory || options.communication || options.parameters ||
              options.kernels || options.timeline || traffic;
  bool all = !some && options.memorySvg.empty() && options.layoutsSvg.empty() &&
             options.timelineSvg.empty() && options.times.empty();
  if (all)
    printOverview(report);
  else if (options.timeline) // times are those of a machine
    printMachine(report);
  if (all || options.parameters)
    printParameters(report);
  if (all || options.memory)
    for (const ProgramReport &program : report.programs)
      printMemory(program);
  if (all || options.communication)
    printCommunication(report);
  if (traffic)
    fmt::print("\n{}", describe(*traffic));
  if (all || options.timeline)
    fmt::print("\n{}", overlapText(planTimelineOf(*plan)));
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
  std::variant<InspectOptions, int> options = parseOptions(argc, argv);
  if (const int *status = std::get_if<int>(&options))
    return *status;
  try {
    if (Result<void> result = inspect(std::get<InspectOptions>(options));
        !result) {
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
