// Generates the numbers and pictures of docs/schedules.md.
//
//   schedule-pages picture NAME   the picture of a schedule
//   schedule-pages page FILE      the page with its table brought up to date

#include "compiler/stage_order/ClosedForms.h"
#include "compiler/stage_order/Picture.h"
#include "compiler/stage_order/Simulate.h"
#include "compiler/stage_order/Slots.h"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <iostream>
#include <iterator>

using namespace polyrank::stage_order;

namespace {

constexpr int64_t ranks = 4, microbatches = 8;

struct Row {
  const char *text;
  int64_t chunks;
};
constexpr Row rows[] = {{"gpipe", 1},        {"1f1b", 1},
                        {"gpipe", 2},        {"interleaved", 2},
                        {"interleaved", 4},  {"zero-bubble", 1},
                        {"zero-bubble-v", 2}};

/// All whole ranks take the same time, so chunks take less.
int drawPicture(const std::string &text) {
  const Row *row =
      std::find_if(std::begin(rows), std::end(rows),
                   [&](const Row &each) { return each.text == text; });
  if (row == std::end(rows)) {
    std::cerr << "no schedule '" << text << "'\n";
    return 1;
  }
  auto schedule = makeSchedule(text, ranks, row->chunks, microbatches);
  int64_t part = 20 / row->chunks;
  Times times;
  times.stages = {{part, part, part}};
  times.updates.assign(ranks, 30);
  times.waitsForAll = true;
  for (int64_t stage = 0; stage + 1 < ranks * row->chunks; ++stage)
    times.transfers.push_back({stage, stage + 1, 2, 2});
  std::cout << toSvg(*schedule, *simulate(*schedule, times), text);
  return 0;
}

/// Times and microbatches of whole ranks.
std::string makeTable() {
  std::string table =
      "| `--schedule` | `--chunks` | takes | ranks stand | without clipping | "
      "held by rank 0 | by the fullest | slots |\n"
      "|---|---|---|---|---|---|---|---|\n";
  for (const Row &row : rows) {
    auto form = getClosedForm(row.text, ranks, row.chunks, microbatches);
    auto schedule = makeSchedule(row.text, ranks, row.chunks, microbatches);
    double chunks = static_cast<double>(row.chunks);
    double work = static_cast<double>(form->makespan - form->bubble);
    auto share = [&](int64_t of) {
      return 100 * (1 - work / static_cast<double>(of));
    };
    table += fmt::format(
        "| `{}` | {} | {:.4g} | {:.1f} % | {:.1f} % | {:.3g} | {:.3g} | {} |\n",
        row.text, row.chunks, double(form->makespan) / chunks,
        share(form->makespan), share(form->period),
        double(form->held.front()) / chunks,
        double(*std::max_element(form->held.begin(), form->held.end())) /
            chunks,
        getSlots(*schedule));
  }
  return table;
}

int writePage(const std::string &path) {
  std::ifstream file(path);
  std::string page{std::istreambuf_iterator<char>(file), {}};
  const std::string begin = "<!-- made by schedule-pages -->\n",
                    end = "<!-- end -->\n";
  size_t from = page.find(begin), to = page.find(end);
  if (from == std::string::npos || to == std::string::npos || to < from) {
    std::cerr << path << " has no place for the table\n";
    return 1;
  }
  std::cout << page.substr(0, from) << begin << makeTable() << page.substr(to);
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  std::string what = argc == 3 ? argv[1] : "";
  if (what == "picture")
    return drawPicture(argv[2]);
  if (what == "page")
    return writePage(argv[2]);
  std::cerr << "usage: schedule-pages picture NAME | page FILE\n";
  return 1;
}
