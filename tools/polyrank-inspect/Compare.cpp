// Prints tables of planned and measured times.

#include "tools/polyrank-inspect/Compare.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace polyrank::runtime {
namespace {

constexpr size_t columns = 100;
constexpr size_t mostOps = 30;

/// Returns "planned measured excess ratio", in milliseconds.
std::string timesOf(const Planned &time) {
  return fmt::format("{:>9.3f} {:>9.3f} {:>+9.3f} {:>6}", 1e3 * time.planned,
                     1e3 * time.measured, 1e3 * time.excess(),
                     time.planned > 0
                         ? fmt::format("{:.2f}", time.measured / time.planned)
                         : "-");
}

std::string head(const char *first) {
  return fmt::format("{:<20}{:>9} {:>9} {:>9} {:>6}\n", first, "planned",
                     "measured", "more", "ratio");
}

void printTotals(const Comparison &comparison) {
  fmt::print("{}", head("ms"));
  fmt::print("{:<20}{}\n", "the step", timesOf(comparison.makespan));
  for (const QueueLine &queue : comparison.queues) {
    bool computes = &queue == &comparison.queues[0],
         isLink = queue.name.find(" to ") != std::string::npos;
    if (computes || queue.busy.planned > 0 || queue.busy.measured > 0)
      fmt::print("{:<20}{}\n",
                 computes ? "computes"
                 : isLink ? "moves " + queue.name // "pipe 0 to 1"
                          : "moves over " + queue.name,
                 timesOf(queue.busy));
  }
  fmt::print("{:<20}{}\n", "stands meanwhile", timesOf(comparison.stood));
  auto measured = [](const char *name, double seconds) {
    fmt::print("{:<20}{:>9} {:>9.3f}\n", name, "",
               1e3 * std::max(0.0, seconds));
  };
  measured("waits for ranks", comparison.forOthers);
  measured("starts collectives", comparison.starting);
  measured("between commands", comparison.outside);
  if (comparison.programs.size() == 1)
    return;
  fmt::print("\n{}", head("ranks at"));
  for (const ProgramLine &program : comparison.programs) {
    fmt::print("{:<20}{}\n", program.place + " compute",
               timesOf(program.computing));
    fmt::print("{:<20}{}\n", "  are idle", timesOf(program.idle));
  }
}

void printCollectives(const Comparison &comparison) {
  if (comparison.collectives.empty())
    return;
  fmt::print("\n{:<41}{:^18}{:^18}{:^14}{:>9}\n", "collectives",
             "-- takes, ms --", "-- stands, ms --", "-- hidden --",
             "until all");
  fmt::print("{:<15}{:<12}{:>5}{:>8} {:>9}{:>9}{:>9}{:>9}{:>7}{:>7}{:>9}\n",
             "kind", "axes", "count", "started", "planned", "measured",
             "planned", "measured", "plan", "run", "started");
  for (const CollectiveLine &line : comparison.collectives)
    fmt::print(
        "{:<15}{:<12}{:>5}{:>8} {:>9.3f}{:>9.3f}{:>9.3f}{:>9.3f}{:>6.0f}%"
        "{:>6.0f}%{:>9.3f}\n",
        line.kind, line.axes, line.count, line.started, 1e3 * line.time.planned,
        1e3 * line.time.measured, 1e3 * line.stood.planned,
        1e3 * line.stood.measured,
        100 *
            CollectiveLine::hiddenShare(line.time.planned, line.stood.planned),
        100 * CollectiveLine::hiddenShare(line.time.measured,
                                          line.stood.measured),
        1e3 * line.forOthers);
}

void printOps(const Comparison &comparison) {
  fmt::print("\n{:>9} {:>9} {:>9} {:>6} {:>5} {:<8}  {}\n", "planned",
             "measured", "more, ms", "ratio", "count", "phase",
             "op: what is run");
  size_t shown =
      comparison.ops.size() <= mostOps + 5 ? comparison.ops.size() : mostOps;
  Planned rest;
  for (size_t i = 0; i < comparison.ops.size(); ++i) {
    const OpLine &line = comparison.ops[i];
    if (i >= shown) {
      rest.planned += line.time.planned;
      rest.measured += line.time.measured;
      continue;
    }
    std::string text = fmt::format("{} {:>5} {:<8}  {}", timesOf(line.time),
                                   line.count, line.phase, line.op);
    if (line.work != line.op)
      text += (text.size() + 2 + line.work.size() > columns
                   ? ":\n" + std::string(54, ' ')
                   : ": ") +
              line.work;
    fmt::print("{}\n", text);
  }
  if (shown < comparison.ops.size())
    fmt::print("{} {:>5} {:<8}  and {} more (--json has all)\n", timesOf(rest),
               "", "", comparison.ops.size() - shown);
}

} // namespace

void printComparison(const Comparison &comparison) {
  fmt::print("step {} of the trace, {}, the mean of {} {}; in milliseconds\n",
             comparison.step,
             comparison.steps == 1
                 ? "the only one"
                 : fmt::format("the fastest of {}", comparison.steps),
             comparison.ranks, comparison.ranks == 1 ? "rank" : "ranks");
  if (!comparison.links.empty())
    fmt::print("collectives were held back: --link {}\n",
               fmt::join(comparison.links, " --link "));
  if (comparison.isRehearsed)
    fmt::print("computation was rehearsed (polyrank-run --rehearse)\n");
  fmt::print("\n");
  printTotals(comparison);
  printCollectives(comparison);
  printOps(comparison);
}

} // namespace polyrank::runtime
