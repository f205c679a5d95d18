// The arena over a step, as a picture.

#include "runtime/plan/MemoryTimeline.h"
#include "runtime/plan/PlanReport.h"
#include "support/ByteText.h"
#include "support/Svg.h"

#include <algorithm>
#include <fmt/format.h>
#include <functional>

namespace polyrank::runtime {
namespace {

struct Kind {
  const char *name, *colour;
};
// Colours that colour-blind people can tell apart (Okabe and Ito's palette).
constexpr Kind kinds[] = {
    {"parameters", "#0072b2"}, {"optimizer state", "#56b4e9"},
    {"inputs", "#999999"},     {"constants", "#cccccc"},
    {"channels", "#d55e00"},   {"forward", "#009e73"},
    {"backward", "#e69f00"},   {"update", "#cc79a7"},
    {"scratch", "#f0e442"}};

const char *colourOf(const std::string &name) {
  for (const Kind &kind : kinds)
    if (kind.name == name)
      return kind.colour;
  return "#000000";
}

constexpr double left = 84, right = 24, width = 1280, arenaHeight = 520,
                 heldHeight = 130, top = 76, gap = 34,
                 plotWidth = width - left - right,
                 heldTop = top + arenaHeight + gap,
                 height = heldTop + heldHeight + 56;
/// Lower rectangles, in pixels, are invisible.
constexpr double leastHeight = 0.2;

class Picture {
public:
  Picture(const MemoryTimeline &timeline, const LoadedPlan &loaded,
          uint32_t program)
      : timeline(timeline), whole(reportOf(loaded)),
        report(whole.programs[program]),
        title(fmt::format(
            "{}: memory of {} in a step",
            whole.model.empty() ? loaded.path : whole.model,
            report.place.empty() ? "rank 0" : "the ranks at " + report.place)),
        svg(width, height, title) {}

  std::string draw() {
    double step = plotWidth / std::max<double>(1, timeline.commands);
    xOf = [=](double command) { return left + command * step; };
    svg.text(left, 24, title, 16, Svg::Anchor::Start, true);
    svg.text(left, 42,
             fmt::format("{}; {} held at the peak; mesh {}",
                         bytesText(report.valueBytes()),
                         bytesText(timeline.peakBytes),
                         whole.mesh.empty() ? "of one rank" : whole.mesh),
             12);
    drawLegend();
    drawArena();
    drawHeld();
    drawSegments();
    return svg.finish();
  }

private:
  void drawLegend() {
    double x = left;
    for (const Kind &kind : kinds) {
      if (std::none_of(
              timeline.held.begin(), timeline.held.end(),
              [&](const HeldBytes &held) { return held.kind == kind.name; }))
        continue;
      svg.rectangle(x, 50, 12, 12, {kind.colour, "#444444"});
      svg.text(x + 16, 60, kind.name, 11);
      x += 28 + 7 * double(std::string_view(kind.name).size());
    }
  }

  /// Addresses grow upwards; the shared region is at the bottom, and the
  /// communicator's memory at the top.
  void drawArena() {
    double total = std::max<double>(1, double(report.valueBytes()));
    double scale = arenaHeight / total;
    auto yOf = [&](std::optional<plan::Region> region, uint64_t offset) {
      uint64_t below = !region                           ? report.arenaBytes()
                       : region == plan::Region::Private ? report.sharedBytes
                                                         : 0;
      return top + arenaHeight - double(below + offset) * scale;
    };
    svg.rectangle(left, top, plotWidth, arenaHeight, {"#fafafa", "#888888"});
    size_t hidden = 0;
    uint64_t largestHidden = 0;
    for (const HeldBytes &held : timeline.held) {
      if (double(held.size) * scale < leastHeight) {
        ++hidden;
        largestHidden = std::max(largestHidden, held.size);
        continue;
      }
      double y = yOf(held.region, held.offset + held.size);
      svg.rectangle(
          xOf(held.first), y, xOf(held.last + 1.0) - xOf(held.first),
          double(held.size) * scale, {colourOf(held.kind), "#333333", 0.85},
          fmt::format("{} ({}): {}, commands {} to {}", held.name, held.kind,
                      bytesText(held.size), held.first, held.last));
    }
    for (int part = 0; part <= 4; ++part) {
      double y = top + arenaHeight * (1 - part / 4.0);
      svg.text(left - 6, y + 4, bytesText(report.valueBytes() / 4 * part), 11,
               Svg::Anchor::End);
    }
    if (report.sharedBytes && report.privateBytes) {
      double y = yOf(plan::Region::Private, 0);
      svg.line(left, y, left + plotWidth, y, "#000000", true);
      svg.text(left + plotWidth - 4, y + 12, "shared with peers", 11,
               Svg::Anchor::End);
    }
    if (report.channelBytes) {
      double y = yOf(std::nullopt, 0);
      svg.line(left, y, left + plotWidth, y, "#000000", true);
    }
    if (hidden)
      svg.text(left + plotWidth, height - 8,
               fmt::format("{} values of at most {} are too thin to be drawn",
                           hidden, bytesText(largestHidden)),
               11, Svg::Anchor::End);
  }

  void drawHeld() {
    double scale =
        heldHeight / std::max<double>(1, double(report.valueBytes()));
    double bottom = heldTop + heldHeight;
    auto yOf = [&](uint64_t bytes) { return bottom - double(bytes) * scale; };
    std::vector<std::pair<double, double>> points{{left, bottom}};
    std::vector<uint64_t> held = timeline.heldBytes();
    for (uint32_t i = 0; i < held.size(); ++i) {
      points.emplace_back(xOf(i), yOf(held[i]));
      points.emplace_back(xOf(i + 1.0), yOf(held[i]));
    }
    points.emplace_back(left + plotWidth, bottom);
    svg.polygon(points, {"#9ecae1", "#3182bd"});
    svg.rectangle(left, heldTop, plotWidth, heldHeight, {"none", "#888888"});
    svg.text(left - 6, heldTop + 4, bytesText(report.valueBytes()), 11,
             Svg::Anchor::End);
    svg.text(left - 6, bottom + 4, "0 B", 11, Svg::Anchor::End);
    svg.text(left, heldTop - 6, "held in all", 11);
    if (!timeline.commands)
      return;
    double x = xOf(timeline.peak + 0.5);
    svg.line(x, top, x, bottom, "#d00000", true);
    bool atEnd = x > left + plotWidth / 2;
    svg.text(x + (atEnd ? -4 : 4), heldTop - 6,
             fmt::format("peak: {} in {} ({})", bytesText(timeline.peakBytes),
                         timeline.peakOrigin, timeline.peakPhase),
             11, atEnd ? Svg::Anchor::End : Svg::Anchor::Start);
  }

  void drawSegments() {
    double bottom = heldTop + heldHeight;
    for (const TimelineSegment &segment : timeline.segments) {
      double x = xOf(segment.first);
      if (segment.first)
        svg.line(x, top, x, bottom, "#000000");
      std::string times = segment.repeats > 1
                              ? fmt::format(" ({} times)", segment.repeats)
                              : "";
      svg.text(x + 3, bottom + 16, segment.name + times, 11);
    }
    svg.text(left, bottom + 34,
             fmt::format("commands 0 to {} of a step",
                         timeline.commands ? timeline.commands - 1 : 0),
             11);
  }

  const MemoryTimeline &timeline;
  PlanReport whole;
  const ProgramReport &report;
  std::string title;
  Svg svg;
  std::function<double(double)> xOf;
};

} // namespace

std::string memorySvg(const MemoryTimeline &timeline, const LoadedPlan &plan,
                      uint32_t program) {
  return Picture(timeline, plan, program).draw();
}

} // namespace polyrank::runtime
