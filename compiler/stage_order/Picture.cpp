// Draws a row of boxes for each rank.

#include "compiler/stage_order/Picture.h"

#include "support/Svg.h"

#include <algorithm>
#include <fmt/format.h>

using namespace polyrank::stage_order;
using polyrank::Svg;

namespace {

struct Look {
  const char *name, *colour;
  // The share of the row's height, so that parts differ without colours.
  double height;
};
// Okabe and Ito's palette, by Part.
constexpr Look parts[] = {{"forward", "#009e73", 1.0},
                          {"backward", "#e69f00", 0.78},
                          {"gradient of the input", "#e69f00", 0.78},
                          {"gradients of weights", "#f0e442", 0.56}};
constexpr Look update = {"update", "#cc79a7", 0.34};
constexpr const char *sending = "#0072b2", *standing = "#ececec";

constexpr double left = 70, right = 20, width = 1120, top = 84, row = 34,
                 sendRow = 7, rowGap = 8, plotWidth = width - left - right;
/// The smallest widths, in pixels, of a visible box and of a readable digit.
constexpr double leastWidth = 0.05, digitWidth = 6.4;

class Picture {
public:
  Picture(const Schedule &schedule, const Simulation &simulation,
          const std::string &title)
      : schedule(schedule), simulation(simulation),
        stages(getStagesOfRanks(schedule)),
        bottom(top + (row + sendRow + rowGap) * double(stages.size())),
        scale(plotWidth / std::max<double>(1, double(simulation.makespan))),
        svg(width, bottom + 24, title.empty() ? "a schedule" : title) {
    svg.text(left, 24, title, 16, Svg::Anchor::Start, true);
  }

  std::string draw() {
    svg.text(left, 44,
             fmt::format("{} ranks, {} stages, {} microbatches: takes {}, at "
                         "least {}; ranks stand {:.1f} % of it",
                         stages.size(), schedule.coordinates.size(),
                         schedule.microbatches, simulation.makespan,
                         simulation.lowerBound, 100 * getMeanBubble()),
             12);
    drawLegend();
    for (size_t rank = 0; rank < stages.size(); ++rank)
      drawRank(rank);
    for (const Transfer &transfer : simulation.transfers)
      svg.rectangle(
          xOf(transfer.time.start),
          topOf(schedule.coordinates[transfer.from]) + row + 1,
          widthOf(transfer.time), sendRow - 1, {sending, "none", 0.85},
          fmt::format("microbatch {}: from stage {} to {}", transfer.microbatch,
                      transfer.from, transfer.to));
    svg.text(left, bottom + 12, "0", 11);
    svg.text(left + plotWidth, bottom + 12,
             fmt::format("{}", simulation.makespan), 11, Svg::Anchor::End);
    return svg.finish();
  }

private:
  double xOf(int64_t time) const { return left + double(time) * scale; }
  double widthOf(const Interval &time) const {
    return double(time.getLength()) * scale;
  }
  static double topOf(size_t rank) {
    return top + (row + sendRow + rowGap) * double(rank);
  }
  double getMeanBubble() const {
    double sum = 0;
    for (double bubble : simulation.bubbles)
      sum += bubble;
    return sum / double(simulation.bubbles.size());
  }
  /// Later chunks are paler.
  double getShade(size_t rank, int32_t chunk) const {
    size_t last = stages[rank].size() - 1;
    return last == 0 ? 0.95 : 0.95 - 0.5 * double(chunk) / double(last);
  }

  void drawLegend() {
    double x = left;
    auto add = [&](const Look &look) {
      double high = 14 * look.height;
      svg.rectangle(x, 70 - high, 14, high, {look.colour, "#444444"});
      svg.text(x + 18, 68, look.name, 11);
      x += 34 + 5.6 * double(std::string_view(look.name).size());
    };
    auto isUsed = [&](Part part) {
      for (const auto &entries : schedule.ranks)
        for (const Entry &entry : entries)
          if (entry.part == part)
            return true;
      return false;
    };
    for (int part = 0; part < 4; ++part)
      if (isUsed(static_cast<Part>(part)))
        add(parts[part]);
    if (std::any_of(simulation.updates.begin(), simulation.updates.end(),
                    [](const Interval &time) { return time.getLength() > 0; }))
      add(update);
    if (!simulation.transfers.empty()) {
      svg.rectangle(x, 64, 14, sendRow - 1, {sending});
      svg.text(x + 18, 68, "communication", 11);
      x += 34 + 5.6 * 13;
    }
    drawStanding(x, 56, 14, 14, "");
    svg.text(x + 18, 68,
             stages[0].size() > 1 ? "the rank stands; later chunks are paler"
                                  : "the rank stands",
             11);
  }

  /// Draws idle time: a grey box with a line across.
  void drawStanding(double x, double y, double wide, double high,
                    const std::string &tip) {
    svg.rectangle(x, y, wide, high, {standing, "#bbbbbb"}, tip);
    svg.line(x, y + high, x + wide, y, "#bbbbbb");
  }

  void drawBox(size_t rank, const Interval &time, const Look &look,
               double shade, const std::string &label, const std::string &tip) {
    double wide = widthOf(time), high = row * look.height;
    if (wide < leastWidth)
      return;
    double y = topOf(rank) + row - high;
    svg.rectangle(xOf(time.start), y, wide, high,
                  {look.colour, wide < 3 ? "none" : "#333333", shade}, tip);
    if (wide > digitWidth * double(label.size()) + 2)
      svg.text(xOf(time.start) + wide / 2, topOf(rank) + row - 6, label, 11,
               Svg::Anchor::Middle);
  }

  void drawRank(size_t rank) {
    svg.text(left - 8, topOf(rank) + row / 2 + 4, fmt::format("rank {}", rank),
             12, Svg::Anchor::End);
    int64_t since = 0;
    auto stand = [&](int64_t until) {
      Interval time{since, until};
      if (widthOf(time) >= leastWidth)
        drawStanding(
            xOf(since), topOf(rank), widthOf(time), row,
            fmt::format("rank {} stands for {}", rank, time.getLength()));
    };
    for (size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
      const Entry &entry = schedule.ranks[rank][i];
      const Interval &time = simulation.entries[rank][i];
      const Look &look = parts[static_cast<int>(entry.part)];
      stand(time.start);
      drawBox(rank, time, look, getShade(rank, entry.chunk),
              std::to_string(entry.microbatch),
              fmt::format("{} of stage {}, microbatch {}: {} from {}",
                          look.name, stages[rank][entry.chunk],
                          entry.microbatch, time.getLength(), time.start));
      since = time.end;
    }
    const Interval &last = simulation.updates[rank];
    stand(last.start);
    drawBox(rank, last, update, 0.95, "",
            fmt::format("update of rank {}: {} from {}", rank, last.getLength(),
                        last.start));
    since = last.end;
    stand(simulation.makespan);
  }

  const Schedule &schedule;
  const Simulation &simulation;
  std::vector<std::vector<int64_t>> stages; // of ranks
  double bottom, scale;
  Svg svg;
};

} // namespace

std::string polyrank::stage_order::toSvg(const Schedule &schedule,
                                         const Simulation &simulation,
                                         const std::string &title) {
  return Picture(schedule, simulation, title).draw();
}
