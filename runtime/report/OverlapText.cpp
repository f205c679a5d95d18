// Groups programs that are alike, and prints a table for each group.

#include "runtime/report/OverlapText.h"

#include "runtime/plan/Queues.h"
#include "support/ByteText.h"
#include "support/Places.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <tuple>

namespace polyrank::runtime {
namespace {

double milliseconds(int64_t picoseconds) {
  return static_cast<double>(picoseconds) * 1e-9;
}

/// The axes of a line without the two ends of a link: "pipe" of "pipe 0 to 1".
std::string withoutEnds(const OverlapLine &line) {
  bool isTransfer = line.kind == "send" || line.kind == "receive";
  return isTransfer ? line.axes.substr(0, line.axes.find(' ')) : line.axes;
}

/// The lines of a program, those over links of one axis together.
std::vector<OverlapLine> joinLinks(const StepTimeline &program) {
  std::vector<OverlapLine> lines;
  for (const OverlapLine &line : program.overlap) {
    std::string axes = withoutEnds(line);
    auto same =
        std::find_if(lines.begin(), lines.end(), [&](const OverlapLine &other) {
          return other.kind == line.kind && other.axes == axes;
        });
    if (same == lines.end()) {
      lines.push_back(line);
      lines.back().axes = axes;
      continue;
    }
    same->count += line.count;
    same->started += line.started;
    same->bytes += line.bytes;
    same->time += line.time;
    same->hidden += line.hidden;
  }
  std::sort(lines.begin(), lines.end(),
            [](const OverlapLine &a, const OverlapLine &b) {
              return std::tie(b.time, a.kind, a.axes) <
                     std::tie(a.time, b.kind, b.axes);
            });
  return lines;
}

/// Programs that are alike.
struct Group {
  std::vector<size_t> programs;
  std::vector<OverlapLine> lines; // `hidden` of all programs together
};

/// True if the lines differ at most in how much is hidden.
bool areAlike(const std::vector<OverlapLine> &a,
              const std::vector<OverlapLine> &b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const OverlapLine &one, const OverlapLine &other) {
                      auto key = [](const OverlapLine &line) {
                        return std::tie(line.kind, line.axes, line.count,
                                        line.started, line.bytes, line.time);
                      };
                      return key(one) == key(other);
                    });
}

std::vector<Group> groupPrograms(const PlanTimeline &timeline) {
  std::vector<Group> groups;
  for (size_t number = 0; number < timeline.programs.size(); ++number) {
    const StepTimeline &program = timeline.programs[number];
    std::vector<OverlapLine> lines = joinLinks(program);
    auto same =
        std::find_if(groups.begin(), groups.end(), [&](const Group &group) {
          const StepTimeline &first = timeline.programs[group.programs.front()];
          return first.computation == program.computation &&
                 first.communication == program.communication &&
                 areAlike(group.lines, lines);
        });
    if (same == groups.end()) {
      groups.push_back({{number}, lines});
      continue;
    }
    same->programs.push_back(number);
    for (size_t i = 0; i < lines.size(); ++i)
      same->lines[i].hidden += lines[i].hidden;
  }
  // The two ends of a link are of interest where a program is alone.
  for (Group &group : groups)
    if (group.programs.size() == 1)
      group.lines = timeline.programs[group.programs.front()].overlap;
  return groups;
}

/// The work of each queue of a program.
std::string describeQueues(const StepTimeline &program) {
  std::string text = fmt::format("  {:<8}{:<40}{:>11}\n", "queue", "of", "ms");
  for (size_t queue = 0; queue < program.queues.size(); ++queue)
    text += fmt::format(
        "  {:<8}{:<40}{:>11.3f}\n",
        queue == 0 ? computeQueue : firstCommunicationQueue + queue - 1,
        program.queues[queue], milliseconds(program.busy[queue]));
  return text;
}

/// Queues are those of one program, so programs that are alike have no table of
/// them.
std::string describe(const Group &group, const PlanTimeline &timeline) {
  if (group.lines.empty())
    return "";
  std::string text;
  if (group.programs.size() == 1)
    text = describeQueues(timeline.programs[group.programs.front()]);
  text += fmt::format("  {:<16}{:<16}{:>6}{:>9}{:>11}{:>11}{:>8}\n", "kind",
                      "axes", "count", "started", "sent", "ms", "hidden");
  auto programs = static_cast<double>(group.programs.size());
  for (const OverlapLine &line : group.lines)
    text += fmt::format("  {:<16}{:<16}{:>6}{:>9}{:>11}{:>11.3f}{:>7.0f}%\n",
                        line.kind, line.axes, line.count, line.started,
                        bytesText(line.bytes), milliseconds(line.time),
                        line.time ? 100.0 * static_cast<double>(line.hidden) /
                                        (programs * double(line.time))
                                  : 0);
  return text;
}

} // namespace

std::string overlapText(const PlanTimeline &timeline) {
  std::string text = fmt::format(
      "schedule: a step takes {:.3f} ms as planned, at least "
      "{:.3f}\n",
      milliseconds(timeline.makespan), milliseconds(timeline.lowerBound));
  for (const Group &group : groupPrograms(timeline)) {
    size_t first = group.programs.front();
    const StepTimeline &program = timeline.programs[first];
    std::vector<std::string> places;
    for (size_t number : group.programs)
      places.push_back(timeline.programs[number].place);
    text += fmt::format(
        "{}  {:.3f} ms of computation, {:.3f} ms of communication{}\n",
        program.place.empty() ? "" : "at " + joinPlaces(places) + ":",
        milliseconds(program.computation), milliseconds(program.communication),
        timeline.programs.size() == 1
            ? ""
            : fmt::format(", {:.3f} ms idle: a bubble of {:.1f} %",
                          milliseconds(timeline.idle(first)),
                          100 * timeline.bubble(first)));
    text += describe(group, timeline);
  }
  return text;
}

} // namespace polyrank::runtime
