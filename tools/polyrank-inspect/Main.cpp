// polyrank-inspect: what a plan holds, moves and runs, without running it.

#include "runtime/report/PlanReport.h"
#include "tools/Help.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>
#include <map>
#include <nlohmann/json.hpp>

namespace polyrank::runtime {
namespace {

struct InspectOptions {
  std::string plan, why;
  bool memory = false, communication = false, parameters = false,
       kernels = false, json = false;
};

void printOverview(const PlanReport &report, const PlanHash &hash) {
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
  fmt::print(
      "commands      {} kernel launches, {} products, {} copies a step\n",
      report.launches, report.gemms, report.copies);
  fmt::print("products      {:.3f} GFLOP a step on each rank\n",
             1e-9 * static_cast<double>(report.gemmFlops));
  fmt::print("hash          {}\n", toHex(hash));
}

void printParameters(const PlanReport &report) {
  fmt::print("\nparameters: {} elements; each rank holds {} and {} of state\n",
             report.parameterElements, bytesText(report.parameterBytes),
             bytesText(report.stateBytes));
  size_t width = 9;
  for (const HeldArgument &held : report.held)
    width = std::max(width, held.name.size());
  fmt::print("  {:<{}}  {:<6}{:>12}  {}\n", "name", width, "dtype", "each rank",
             "layout");
  for (bool parameters : {true, false})
    for (const HeldArgument &held : report.held) {
      if (held.isParameter != parameters)
        continue;
      const char *note = !parameters      ? "  (state)"
                         : held.trainable ? ""
                                          : "  (frozen)";
      fmt::print("  {:<{}}  {:<6}{:>12}  {}{}\n", held.name, width, held.dtype,
                 bytesText(held.bytes), held.layout, note);
    }
}

void printMemory(const PlanReport &report) {
  uint64_t total = report.sharedBytes + report.privateBytes;
  fmt::print("\nmemory of each rank: {} ({} bytes)\n", bytesText(total), total);
  fmt::print("  {:<28}{:>16}\n", "shared with peers", report.sharedBytes);
  fmt::print("  {:<28}{:>16}\n", "private", report.privateBytes);
  if (report.lowerBound)
    fmt::print("  {:<28}{:>16}  (gap {:.2f} %)\n", "lower bound",
               report.lowerBound,
               100.0 * (static_cast<double>(total) /
                            static_cast<double>(report.lowerBound) -
                        1));
  if (!report.memory.empty())
    fmt::print("by kind:\n");
  for (auto &[kind, bytes] : report.memory)
    fmt::print("  {:<28}{:>16}\n", kind, bytes);
  fmt::print("not in the arena: {} at most for code and data of the program",
             bytesText(programBytes));
  if (report.sgemms)
    fmt::print(", and {} that oneDNN's sgemm packs into",
               bytesText(report.libraryBytes()));
  fmt::print("\n");
}

void printCommunication(const PlanReport &report) {
  fmt::print("\ncommunication of each rank per step:\n");
  if (report.communication.empty()) {
    fmt::print("  none\n");
    return;
  }
  fmt::print("  {:<14}{:<20}{:<14}{:>6}{:>8}{:>16}{:>16}\n", "kind", "axes",
             "segment", "ranks", "count", "bytes", "sent bytes");
  uint64_t count = 0, payload = 0, sent = 0;
  for (const CommunicationLine &line : report.communication) {
    fmt::print("  {:<14}{:<20}{:<14}{:>6}{:>8}{:>16}{:>16}\n", line.kind,
               line.axes, line.segment, line.groupSize, line.count,
               line.payload, line.sent);
    count += line.count, payload += line.payload, sent += line.sent;
  }
  fmt::print("  {:<54}{:>8}{:>16}{:>16}\n", "in all", count, payload, sent);
}

void printKernels(const PlanReport &report) {
  fmt::print("\nkernels: {}, for {}\n", report.kernels.size(),
             report.cpu.empty() ? "any CPU" : report.cpu);
  for (const KernelLine &kernel : report.kernels)
    fmt::print("  {:<48}{:>8} launches a step\n", kernel.symbol,
               kernel.launches);
}

/// `name` is part of a name, or a glob of one.
bool mentions(const std::string &text, const std::string &name) {
  return text.find(name) != std::string::npos ||
         fnmatch(("*" + name + "*").c_str(), text.c_str(), 0) == 0;
}

bool mentions(const CollectiveReason &reason, const std::string &name) {
  for (const std::string *text :
       {&reason.value, &reason.op, &reason.origin, &reason.constraint,
        &reason.axes, &reason.kind})
    if (mentions(*text, name))
      return true;
  return std::any_of(
      reason.members.begin(), reason.members.end(),
      [&](const std::string &member) { return mentions(member, name); });
}

/// Without the layers' numbers: h.0.attn and h.1.attn are alike; and without
/// the exporter's name of the node, which follows a slash.
std::string withoutLayers(std::string name) {
  if (size_t slash = name.find('/'); slash != std::string::npos)
    name = name.substr(0, slash) + (name.back() == '\'' ? "'" : "");
  std::string result;
  for (size_t i = 0; i < name.size(); ++i) {
    bool starts = i == 0 || name[i - 1] == '.' || name[i - 1] == '\'';
    size_t end = i;
    while (end < name.size() &&
           std::isdigit(static_cast<unsigned char>(name[end])))
      ++end;
    bool isNumber =
        starts && end > i && (end == name.size() || name[end] == '.');
    result += isNumber ? '*' : name[i];
    if (isNumber)
      i = end - 1;
  }
  return result;
}

/// Collectives that are alike but for their layer and segment are one entry.
Result<void> printReasons(const PlanReport &report, const std::string &name) {
  struct Entry {
    const CollectiveReason *reason;
    std::vector<std::string> values;
    uint64_t executions = 0;
  };
  std::vector<std::string> keys;
  std::map<std::string, Entry> entries;
  for (const CollectiveReason &reason : report.reasons) {
    if (!mentions(reason, name))
      continue;
    std::string value = reason.value.empty() ? reason.origin : reason.value;
    std::string key =
        fmt::format("{}|{}|{}|{}|{}|{}|{}|{}", reason.kind, reason.axes,
                    reason.bytes, reason.from, reason.to, reason.constraint,
                    withoutLayers(value), withoutLayers(reason.op));
    auto [entry, isNew] = entries.try_emplace(key, Entry{&reason, {}, 0});
    if (isNew)
      keys.push_back(key);
    std::vector<std::string> &values = entry->second.values;
    if (std::find(values.begin(), values.end(), value) == values.end())
      values.push_back(value);
    entry->second.executions += reason.executions;
  }
  for (const std::string &key : keys) {
    const auto &[reason, values, executions] = entries.at(key);
    fmt::print("{} over {}, {} bytes, {} times a step\n", reason->kind,
               reason->axes, reason->bytes, executions);
    fmt::print("  moves       {}\n", fmt::join(values, "\n              "));
    fmt::print("  from        {}\n  to          {}\n", reason->from,
               reason->to);
    if (!reason->op.empty())
      fmt::print("  needed by   {}\n",
                 values.size() > 1 ? withoutLayers(reason->op) : reason->op);
    for (const std::string &member : reason->members)
      if (!name.empty() && mentions(member, name))
        fmt::print("  among them  {}\n", member);
    if (!reason->constraint.empty())
      fmt::print("  because of  {}\n", reason->constraint);
  }
  if (!keys.empty())
    return {};
  return Error{report.reasons.empty()
                   ? "the plan has no communication"
                   : fmt::format("no collective has to do with '{}'; --why "
                                 "alone gives all reasons",
                                 name)};
}

Result<void> inspect(const InspectOptions &options) {
  Result<LoadedPlan> plan = loadPlan(options.plan);
  if (!plan)
    return plan.error();
  PlanReport report = reportOf(*plan);
  if (options.json) {
    nlohmann::json json = toJson(report);
    json["hash"] = toHex(plan->bytes.hash);
    fmt::print("{}\n", json.dump(2, ' ', false,
                                 nlohmann::json::error_handler_t::replace));
    return {};
  }
  if (!options.why.empty())
    return printReasons(report, options.why);
  bool all = !options.memory && !options.communication && !options.parameters &&
             !options.kernels;
  if (all)
    printOverview(report, plan->bytes.hash);
  if (all || options.parameters)
    printParameters(report);
  if (all || options.memory)
    printMemory(report);
  if (all || options.communication)
    printCommunication(report);
  if (all || options.kernels)
    printKernels(report);
  return {};
}

} // namespace
} // namespace polyrank::runtime

int main(int argc, char **argv) {
  using namespace polyrank::runtime;
  InspectOptions options;
  CLI::App app{"Shows what a plan holds, moves and runs. Without an option: "
               "everything but the reasons.\n"
               "Exit status: 0 done, 1 the input is wrong.",
               "polyrank-inspect"};
  polyrank::useHelpFormatter(app);
  app.add_option("PLAN", options.plan, "The plan file")
      ->required()
      ->type_name("FILE");
  app.add_flag("--parameters", options.parameters,
               "Parameters and state: layout and bytes on each rank");
  app.add_flag("--memory", options.memory,
               "The arena of each rank by kind, and its lower bound");
  app.add_flag("--comm", options.communication,
               "Collectives by kind and set of axes: count and bytes per step");
  app.add_flag("--kernels", options.kernels,
               "Generated kernels and how often they run");
  app.add_option("--why", options.why,
                 "Why values are moved: from which layout to which, and which "
                 "op and constraint forced it; with NAME only where value, op, "
                 "axes or constraint contain this text or match this pattern")
      ->type_name("[NAME]")
      ->expected(0, 1)
      ->default_str("*");
  app.add_flag("--json", options.json, "Everything, as one JSON object");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  try {
    if (Result<void> result = inspect(options); !result) {
      fmt::print(stderr, "polyrank-inspect: {}\n", result.error().message);
      return 1;
    }
    return 0;
  } catch (const std::exception &exception) {
    fmt::print(stderr, "polyrank-inspect: {}\n", exception.what());
    return 2;
  }
}
