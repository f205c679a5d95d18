// Draws each layout as the grid of its blocks.

#include "runtime/report/LayoutsSvg.h"

#include "runtime/plan/PlanReport.h"
#include "support/ByteText.h"
#include "support/ElementType.h"
#include "support/Names.h"
#include "support/Svg.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <numeric>

namespace polyrank::runtime {
namespace {

constexpr double left = 16, nameWidth = 430, gridWidth = 300, width = 1160,
                 top = 76, rowGap = 14;

/// Arguments of a program that differ only in layer numbers.
struct Row {
  const plan::Argument *argument = nullptr;
  const plan::Program *program = nullptr;
  LayerNames names;
};

int64_t blocksOf(const plan::Dim &dim) { return Mesh::groupSize(dim.axes()); }

/// "0-3,8"
std::string rangesText(const std::vector<int64_t> &ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i;
    while (end + 1 < ranks.size() && ranks[end + 1] == ranks[end] + 1)
      ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ",", ranks[i]);
    if (end > i)
      text += fmt::format("{}{}", end == i + 1 ? "," : "-", ranks[end]);
    i = end + 1;
  }
  return text;
}

class Picture {
public:
  explicit Picture(const LoadedPlan &loaded)
      : loaded(loaded), mesh(*loaded.plan), report(reportOf(loaded)) {}

  std::string draw() {
    collectRows();
    double height = top + 20;
    for (const Row &row : rows)
      height += heightOf(row) + rowGap;
    std::string title =
        fmt::format("{}: what each rank holds",
                    report.model.empty() ? loaded.path : report.model);
    Svg svg(width, height, title);
    svg.text(left, 24, title, 16, Svg::Anchor::Start, true);
    svg.text(left, 44, describeMesh());
    svg.text(
        left, 62,
        "Blocks of one colour are held by the same ranks; grey is held by "
        "all, and white with a dashed line is padding. State without a row "
        "lies as its parameter does.",
        11);
    double y = top;
    for (const Row &row : rows) {
      drawRow(svg, row, y);
      y += heightOf(row) + rowGap;
    }
    return svg.finish();
  }

private:
  std::string describeMesh() const {
    if (mesh.ranks() == 1)
      return "one rank";
    std::string text = fmt::format("mesh {}: ", report.mesh);
    for (int64_t rank = 0; rank < std::min<int64_t>(mesh.ranks(), 8); ++rank)
      text += (rank ? ", " : "") + mesh.describeRank(rank);
    return text + (mesh.ranks() > 8 ? ", .." : "");
  }

  void collectRows() {
    for (const plan::Program *program : *loaded.plan->programs())
      collectRows(*program);
  }

  void collectRows(const plan::Program &program) {
    std::map<std::string, std::string> layouts;
    for (const plan::Argument *argument : *program.arguments())
      if (argument->role() == plan::Role::Parameter)
        layouts[argument->name()->str()] =
            describeLayout(mesh, argument->dims());
    std::map<std::string, size_t> numbers;
    for (const plan::Argument *argument : *program.arguments()) {
      std::string layout = describeLayout(mesh, argument->dims());
      if (argument->role() == plan::Role::Seed || !argument->dims() ||
          argument->dims()->size() == 0)
        continue;
      if (argument->role() == plan::Role::State && argument->state_of()) {
        auto parameter = layouts.find(argument->state_of()->str());
        if (parameter != layouts.end() && parameter->second == layout)
          continue;
      }
      std::string name = argument->name()->str();
      auto [at, isNew] =
          numbers.try_emplace(fmt::format("{}|{}|{}", LayerNames::getKey(name),
                                          layout, int(argument->dtype())),
                              rows.size());
      if (isNew)
        rows.push_back({argument, &program, {}});
      rows[at->second].names.add(name);
    }
  }

  /// The dims that are drawn vertically and horizontally; -1 for none.
  struct Plane {
    int down = -1, across = -1;
  };
  static Plane planeOf(const plan::Argument &argument) {
    const Dims &dims = *argument.dims();
    int rank = int(dims.size());
    if (rank == 1)
      return {-1, 0};
    std::vector<int> order(rank);
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int a, int b) {
      return std::pair(-blocksOf(*dims.Get(a)), a) <
             std::pair(-blocksOf(*dims.Get(b)), b);
    });
    auto [down, across] = std::minmax(order[0], order[1]);
    return {down, across};
  }
  static double heightOf(const Row &row) {
    const plan::Argument &argument = *row.argument;
    Plane plane = planeOf(argument);
    if (plane.down < 0)
      return 20;
    auto blocks = double(blocksOf(*argument.dims()->Get(plane.down)));
    return std::clamp(16 * blocks, 32.0, 160.0);
  }

  void drawRow(Svg &svg, const Row &row, double y) {
    const plan::Argument &argument = *row.argument;
    std::string count =
        row.names.size() > 1 ? fmt::format("{} x ", row.names.size()) : "";
    svg.text(left, y + 13, row.names.toString(), 12, Svg::Anchor::Start, true);
    Plane plane = planeOf(argument);
    std::string place = describePlaces(mesh, row.program->at());
    std::string what = fmt::format("{}{} {}, {} on each rank{}", count,
                                   nameOf(ElementType(argument.dtype())),
                                   describeLayout(mesh, argument.dims()),
                                   bytesText(argument.buffer()->size()),
                                   place.empty() ? "" : " at " + place);
    if (heightOf(row) > 28)
      svg.text(left, y + 28, what, 11);
    else
      svg.text(left + nameWidth + gridWidth + 12, y + 13, what, 11);
    drawGrid(svg, row, plane, y, heightOf(row));
    if (argument.dims()->size() > 2)
      svg.text(left + nameWidth + gridWidth + 12, y + 13,
               fmt::format("dims {} (down) and {} (across) of {}", plane.down,
                           plane.across, argument.dims()->size()),
               11);
  }

  void drawGrid(Svg &svg, const Row &row, Plane plane, double y,
                double height) {
    const plan::Argument &argument = *row.argument;
    const Dims &dims = *argument.dims();
    const plan::Dim *down = plane.down < 0 ? nullptr : dims.Get(plane.down);
    const plan::Dim &across = *dims.Get(plane.across);
    // Block (row, column) -> its ranks.
    std::map<std::pair<int64_t, int64_t>, std::vector<int64_t>> blocks;
    for (int64_t rank = 0; rank < mesh.ranks(); ++rank)
      if (isAt(mesh, rank, row.program->at()))
        blocks[{down ? mesh.linearIndex(rank, down->axes()) : 0,
                mesh.linearIndex(rank, across.axes())}]
            .push_back(rank);
    double rows = down ? double(blocksOf(*down)) : 1,
           columns = double(blocksOf(across));
    double cellWidth = gridWidth / columns, cellHeight = height / rows;
    double x0 = left + nameWidth;
    for (auto &[place, ranks] : blocks) {
      double x = x0 + double(place.second) * cellWidth,
             top = y + double(place.first) * cellHeight;
      std::string text = rangesText(ranks);
      std::string tip =
          fmt::format("{} {} {} {}", ranks.size() == 1 ? "rank" : "ranks", text,
                      ranks.size() == 1 ? "holds" : "hold",
                      describeBlock(argument, ranks[0]));
      svg.rectangle(x, top, cellWidth, cellHeight, {colourOf(ranks), "#333333"},
                    tip);
      drawPadding(svg, argument, plane, ranks[0],
                  {x, top, cellWidth, cellHeight});
      if (6.5 * double(text.size()) < cellWidth && cellHeight >= 9)
        svg.text(x + cellWidth / 2, top + cellHeight / 2 + 4, text, 11,
                 Svg::Anchor::Middle);
    }
  }

  /// "elements [0:32, 64:128]"
  std::string describeBlock(const plan::Argument &argument,
                            int64_t rank) const {
    std::string text;
    for (const BlockDim &dim : blockOf(mesh, rank, argument.dims()))
      text += fmt::format("{}{}:{}", text.empty() ? "" : ", ", dim.start,
                          dim.start + dim.valid);
    return "elements [" + text + "]";
  }

  struct Cell {
    double x, y, width, height;
  };
  void drawPadding(Svg &svg, const plan::Argument &argument, Plane plane,
                   int64_t rank, const Cell &cell) const {
    std::vector<BlockDim> block = blockOf(mesh, rank, argument.dims());
    auto valid = [&](int dim) {
      return dim < 0 || block[dim].block == 0
                 ? 1.0
                 : double(block[dim].valid) / double(block[dim].block);
    };
    double right = cell.width * valid(plane.across),
           below = cell.height * valid(plane.down);
    const Svg::Style white{"#ffffff", "none"};
    if (right < cell.width) {
      svg.rectangle(cell.x + right, cell.y + 0.5, cell.width - right - 0.5,
                    cell.height - 1, white);
      svg.line(cell.x + right, cell.y, cell.x + right, cell.y + cell.height,
               "#333333", true);
    }
    if (below < cell.height) {
      svg.rectangle(cell.x + 0.5, cell.y + below, cell.width - 1,
                    cell.height - below - 0.5, white);
      svg.line(cell.x, cell.y + below, cell.x + cell.width, cell.y + below,
               "#333333", true);
    }
  }

  /// Returns a hue for each set of ranks that share a block: consecutive sets
  /// are far apart, by the golden angle.
  std::string colourOf(const std::vector<int64_t> &ranks) {
    if (int64_t(ranks.size()) == mesh.ranks())
      return "#d9d9d9";
    size_t number = hues.try_emplace(ranks, hues.size()).first->second;
    return fmt::format("hsl({:.0f},60%,76%)",
                       std::fmod(20 + 137.508 * double(number), 360));
  }

  const LoadedPlan &loaded;
  Mesh mesh;
  PlanReport report;
  std::vector<Row> rows;
  std::map<std::vector<int64_t>, size_t> hues;
};

} // namespace

std::string layoutsSvg(const LoadedPlan &plan) { return Picture(plan).draw(); }

} // namespace polyrank::runtime
