// A picture of what each rank does over a step.

#include "runtime/plan/CommandText.h"
#include "runtime/plan/PlanReport.h"
#include "runtime/plan/StepTimeline.h"
#include "support/Svg.h"

#include <fmt/format.h>

#include <map>

namespace polyrank::runtime {
namespace {

struct Look {
  const char *name, *colour;
  double height; // of its row, to tell kinds apart without colours
};
// Okabe and Ito's palette, by plan::Phase.
constexpr Look phases[] = {{"forward", "#009e73", 1.0},
                           {"backward", "#e69f00", 0.72},
                           {"update", "#cc79a7", 0.44}};
/// The second part of a split backward.
constexpr Look weights = {"gradients of weights", "#f0e442", 0.58};
constexpr Look communication = {"communication", "#0072b2", 1.0};

constexpr double left = 120, right = 24, width = 1280, top = 84, row = 54,
                 rowGap = 16, programGap = 26, plotWidth = width - left - right,
                 // The overview of several programs: one lane for each.
    lane = 28, laneGap = 6, laneEnd = 34;
/// Narrower boxes, in pixels, are invisible.
constexpr double leastWidth = 0.05;

/// A queue of a program, and the place of its row.
struct Row {
  std::string name;
  double top;
};

class Picture {
public:
  Picture(const PlanTimeline &timeline, const LoadedPlan &loaded)
      : timeline(timeline), report(reportOf(loaded)),
        isOne(timeline.programs.size() == 1),
        title(fmt::format("{}: the commands of {} in a step",
                          report.model.empty() ? loaded.path : report.model,
                          isOne ? "a rank" : "a rank of each program")),
        bottom(placeRows()), svg(width, bottom + 56, title) {}

  std::string draw() {
    scale = plotWidth / std::max<double>(1, double(timeline.makespan));
    svg.text(left, 24, title, 16, Svg::Anchor::Start, true);
    int64_t computation = 0, communication = 0;
    for (const StepTimeline &program : timeline.programs) {
      computation = std::max(computation, program.computation);
      communication = std::max(communication, program.communication);
    }
    svg.text(
        left, 44,
        fmt::format("{} as planned, at least {}; {}{} of computation, {} of "
                    "communication; mesh {}",
                    timeText(timeline.makespan), timeText(timeline.lowerBound),
                    isOne ? "" : "up to ", timeText(computation),
                    timeText(communication),
                    report.mesh.empty() ? "of one rank" : report.mesh),
        12);
    drawLegend();
    if (!isOne)
      drawOverview();
    for (size_t number = 0; number < timeline.programs.size(); ++number) {
      for (const Row &each : rows[number]) {
        if (each.name.empty())
          continue; // nothing is on it
        svg.rectangle(left, each.top, plotWidth, row, {"#fafafa", "#888888"});
        svg.text(left - 8, each.top + row / 2 + 4, each.name, 12,
                 Svg::Anchor::End);
      }
      drawCommands(number);
      drawSegments(number);
    }
    if (hidden)
      svg.text(left + plotWidth, bottom + 44,
               fmt::format("{} commands are too short to be drawn", hidden), 11,
               Svg::Anchor::End);
    svg.text(left, bottom + 26,
             report.microbatches > 1
                 ? "segments, each with the number of its microbatch"
                 : "segments",
             11);
    return svg.finish();
  }

private:
  static std::string timeText(int64_t picoseconds) {
    double seconds = static_cast<double>(picoseconds) * 1e-12;
    return seconds >= 1      ? fmt::format("{:.2f} s", seconds)
           : seconds >= 1e-3 ? fmt::format("{:.2f} ms", seconds * 1e3)
                             : fmt::format("{:.2f} us", seconds * 1e6);
  }
  double xOf(int64_t time) const { return left + double(time) * scale; }

  /// Fills `rows` and returns where they end. With several programs each
  /// compute row has the program's place as its name.
  double placeRows() {
    double y = top;
    if (!isOne)
      y += (lane + laneGap) * double(timeline.programs.size()) + laneEnd;
    for (size_t number = 0; number < timeline.programs.size(); ++number) {
      const StepTimeline &program = timeline.programs[number];
      auto &own = rows.emplace_back();
      std::vector<bool> isUsed(program.queues.size(), isOne);
      for (const PlannedCommand &command : program.commands)
        isUsed[command.queue] = true;
      for (size_t queue = 0; queue < program.queues.size(); ++queue) {
        bool isDrawn = queue == 0 || isUsed[queue];
        own.push_back(
            {queue == 0 && !isOne ? program.place : program.queues[queue], y});
        if (isDrawn)
          y += row + rowGap;
        else
          own.back().name.clear();
      }
      y += isOne ? 0 : programGap;
    }
    return y;
  }

  void drawLegend() {
    double x = left;
    auto add = [&](const Look &look, const std::string &words) {
      double high = 14 * look.height;
      svg.rectangle(x, 70 - high, 14, high, {look.colour, "#444444"});
      svg.text(x + 18, 68, words, 11);
      x += 34 + 6.2 * double(words.size());
    };
    for (const Look &look : phases)
      add(look, look.name);
    if (hasWeights())
      add(weights, weights.name);
    add(communication, "communication, from start to end");
    svg.text(x, 68, "white: the queue stands", 11);
  }

  /// Returns true if a segment computes only gradients of weights.
  static bool isOfWeights(const std::string &segment) {
    return segment.starts_with("weights");
  }
  bool hasWeights() const {
    for (const StepTimeline &program : timeline.programs)
      for (const PlannedSegment &segment : program.segments)
        if (isOfWeights(segment.name))
          return true;
    return false;
  }

  /// Draws a lane for each program: a box for each phase of a segment, with the
  /// number of the microbatch.
  void drawOverview() {
    for (size_t number = 0; number < timeline.programs.size(); ++number) {
      const StepTimeline &program = timeline.programs[number];
      double y = top + (lane + laneGap) * double(number);
      svg.rectangle(left, y, plotWidth, lane, {"#fafafa", "#888888"});
      svg.text(left - 8, y + lane / 2 + 4, program.place, 12, Svg::Anchor::End);
      std::map<std::pair<uint32_t, plan::Phase>, QueueClock::Interval> boxes;
      for (const PlannedCommand &planned : program.commands) {
        if (planned.queue)
          continue;
        auto [box, isNew] = boxes.try_emplace(
            {planned.action, planned.command->phase()}, planned.time);
        box->second.start = std::min(box->second.start, planned.time.start);
        box->second.end = std::max(box->second.end, planned.time.end);
      }
      for (const auto &[key, time] : boxes)
        drawBox(program.segments[key.first], key.second, time, y);
    }
    svg.text(
        left, top + (lane + laneGap) * double(timeline.programs.size()) + 8,
        "numbers of microbatches; white: the rank stands; later chunks are "
        "paler",
        11);
  }

  void drawBox(const PlannedSegment &segment, plan::Phase phase,
               QueueClock::Interval time, double y) {
    const Look &look =
        isOfWeights(segment.name) && phase == plan::Phase::Backward
            ? weights
            : phases[int(phase)];
    double wide = double(time.end - time.start) * scale,
           high = lane * look.height;
    bool isLater = segment.name.find(" of chunk ") != std::string::npos &&
                   segment.name.find(" of chunk 0") == std::string::npos;
    svg.rectangle(xOf(time.start), y + lane - high, wide, high,
                  {look.colour, "#333333", isLater ? 0.45 : 0.9},
                  fmt::format("{}, microbatch {}: {} from {}", segment.name,
                              segment.microbatch,
                              timeText(time.end - time.start),
                              timeText(time.start)));
    std::string text = std::to_string(segment.microbatch);
    if (phase != plan::Phase::Update && wide > 7.0 * double(text.size()))
      svg.text(xOf(time.start) + wide / 2, y + lane - 5, text, 11,
               Svg::Anchor::Middle);
  }

  void drawCommands(size_t number) {
    for (const PlannedCommand &planned : timeline.programs[number].commands) {
      double wide = double(planned.time.end - planned.time.start) * scale;
      if (wide < leastWidth) {
        ++hidden;
        continue;
      }
      const plan::Command &command = *planned.command;
      const Look &look =
          planned.queue ? communication : phases[int(command.phase())];
      const plan::Collective *collective = command.body_as_Collective();
      const char *name = collective
                             ? plan::EnumNameCollectiveKind(collective->kind())
                             : nameOf(command);
      double high = row * look.height;
      svg.rectangle(
          xOf(planned.time.start), rows[number][planned.queue].top + row - high,
          wide, high, {look.colour, wide < 3 ? "none" : "#333333", 0.85},
          fmt::format("{} of {}: {} from {}", name,
                      command.origin() ? command.origin()->str() : "the step",
                      timeText(planned.time.end - planned.time.start),
                      timeText(planned.time.start)));
    }
  }

  void drawSegments(size_t number) {
    double labelled = 0, first = rows[number][0].top,
           end = number + 1 < rows.size() ? rows[number + 1][0].top - programGap
                                          : bottom - (isOne ? 0 : programGap);
    for (const PlannedSegment &segment : timeline.programs[number].segments) {
      double x = xOf(segment.time.start);
      if (segment.time.start)
        svg.line(x, first - 6, x, end - rowGap + 6, "#000000", true);
      std::string text =
          report.microbatches > 1
              ? fmt::format("{} {}", segment.name, segment.microbatch)
              : segment.name;
      if (x < labelled)
        continue; // too many to name each
      svg.text(x + 3, end + 6, text, 11);
      labelled = x + 12 + 6.5 * double(text.size());
    }
  }

  const PlanTimeline &timeline;
  PlanReport report;
  bool isOne;                         // program
  std::vector<std::vector<Row>> rows; // by program and queue
  std::string title;
  double bottom, scale = 1;
  size_t hidden = 0; // commands
  Svg svg;
};

} // namespace

std::string scheduleSvg(const PlanTimeline &timeline, const LoadedPlan &plan) {
  return Picture(timeline, plan).draw();
}

} // namespace polyrank::runtime
