// Makes schedules by name.

#include "compiler/stage_order/Schedule.h"

#include "compiler/stage_order/Check.h"
#include "compiler/stage_order/Generators.h"
#include "compiler/stage_order/ScheduleText.h"
#include "support/Names.h"

#include <algorithm>

using namespace polyrank;
using namespace polyrank::stage_order;

namespace {

constexpr std::string_view filePrefix = "file:";

/// A named kind of schedule.
struct Kind {
  const char *name;
  Entries (*make)(const Sizes &sizes, int64_t rank);
  bool splitsBackward;
  int64_t leastChunks, mostChunks;
};
constexpr Kind kinds[] = {
    {"gpipe", makeGpipe, false, 1, mostStages},
    {"1f1b", make1f1b, false, 1, 1},
    {"interleaved", makeInterleaved, false, 1, mostStages},
    {"zero-bubble", makeZeroBubble, true, 1, 1},
    {"zero-bubble-v", makeZeroBubbleV, true, 2, 2},
};

std::string number(int64_t value) { return std::to_string(value); }

Result<const Kind *> findKind(std::string_view text) {
  for (const Kind &kind : kinds)
    if (text == kind.name)
      return &kind;
  std::string list;
  for (const std::string &name : getScheduleNames())
    list += (list.empty() ? "" : ", ") + name;
  return Error{"--schedule " + std::string(text) + " is none of " + list +
               " and file:PATH" + nearestWords(text, getScheduleNames())};
}

Result<void> checkSizes(std::string_view text, const Sizes &sizes) {
  auto check = [&](const char *what, int64_t value,
                   int64_t most) -> Result<void> {
    if (value >= 1 && value <= most)
      return {};
    return Error{"--schedule " + std::string(text) + " for " + number(value) +
                 " " + what + ": there are 1 to " + number(most)};
  };
  if (auto ok = check("ranks", sizes.ranks, mostStages); !ok)
    return ok;
  if (auto ok = check("chunks", sizes.chunks, mostStages); !ok)
    return ok;
  if (auto ok = check("stages", sizes.ranks * sizes.chunks, mostStages); !ok)
    return ok;
  if (auto ok = check("microbatches", sizes.microbatches, mostMicrobatches);
      !ok)
    return ok;
  int64_t stages = sizes.ranks * sizes.chunks;
  constexpr int64_t parts = 3;
  if (stages * sizes.microbatches > mostEntries / parts)
    return Error{"--schedule " + std::string(text) + ": " + number(stages) +
                 " stages of " + number(sizes.microbatches) +
                 " microbatches are more than " + number(mostEntries / parts) +
                 ", what a schedule holds; use fewer microbatches"};
  return {};
}

Result<void> checkChunks(const Kind &kind, int64_t chunks) {
  if (chunks >= kind.leastChunks && chunks <= kind.mostChunks)
    return {};
  std::string instead = chunks == 1 ? "1f1b and zero-bubble have one"
                        : chunks == 2
                            ? "interleaved, gpipe and zero-bubble-v have two"
                            : "interleaved and gpipe have any number";
  return Error{std::string("--schedule ") + kind.name + " has " +
               number(kind.leastChunks) +
               (kind.leastChunks == 1 ? " chunk" : " chunks") +
               " on each rank, and --chunks " + number(chunks) +
               " asks for others; " + instead};
}

std::vector<int64_t> makeCoordinates(const Kind &kind, const Sizes &sizes) {
  std::vector<int64_t> coordinates;
  for (int64_t chunk = 0; chunk < sizes.chunks; ++chunk)
    for (int64_t i = 0; i < sizes.ranks; ++i) {
      bool goesBack = kind.make == makeZeroBubbleV && chunk == 1;
      coordinates.push_back(goesBack ? sizes.ranks - 1 - i : i);
    }
  return coordinates;
}

/// Checks that a file has the stages that were asked for.
Result<void> checkStages(const std::string &path, const Schedule &schedule,
                         int64_t ranks, int64_t chunks) {
  if (int64_t(schedule.ranks.size()) != ranks)
    return Error{path + ": has lines for " + number(schedule.ranks.size()) +
                 " ranks, and the pipe axis has " + number(ranks)};
  std::vector<std::vector<int64_t>> stages = getStagesOfRanks(schedule);
  for (int64_t rank = 0; rank < ranks; ++rank)
    if (int64_t(stages[rank].size()) != chunks)
      return Error{path + ": rank " + number(rank) + " has " +
                   number(stages[rank].size()) + " stages, and --chunks " +
                   number(chunks) + " asks for others"};
  return {};
}

Result<Schedule> readFor(const std::string &path, const Sizes &sizes,
                         bool trains) {
  POLYRANK_ASSIGN(schedule, readScheduleFile(path));
  if (auto ok = checkStages(path, schedule, sizes.ranks, sizes.chunks); !ok)
    return ok.error();
  if (schedule.microbatches != sizes.microbatches)
    return Error{path + ": has entries of " + number(schedule.microbatches) +
                 " microbatches, and the step has " +
                 number(sizes.microbatches)};
  CheckOptions options;
  options.trains = trains;
  if (auto ok = checkSchedule(schedule, options); !ok)
    return Error{path + ": " + ok.error().message};
  return schedule;
}

} // namespace

std::vector<std::string> polyrank::stage_order::getScheduleNames() {
  std::vector<std::string> names;
  for (const Kind &kind : kinds)
    names.emplace_back(kind.name);
  return names;
}

Result<Schedule> polyrank::stage_order::makeSchedule(std::string_view text,
                                                     int64_t ranks,
                                                     int64_t chunks,
                                                     int64_t microbatches,
                                                     std::string_view parts) {
  Sizes sizes{ranks, chunks, microbatches};
  bool trains = parts != forwardParts;
  if (trains && parts != trainParts)
    return Error{"a schedule of '" + std::string(parts) +
                 "': there are train and forward"};
  if (auto ok = checkSizes(text, sizes); !ok)
    return ok.error();
  if (text.starts_with(filePrefix))
    return readFor(std::string(text.substr(filePrefix.size())), sizes, trains);
  POLYRANK_ASSIGN(kind, findKind(text));
  if (auto ok = checkChunks(*kind, chunks); !ok)
    return ok.error();
  Schedule schedule{makeCoordinates(*kind, sizes),
                    microbatches,
                    {},
                    trains && kind->splitsBackward};
  for (int64_t rank = 0; rank < ranks; ++rank) {
    Entries entries = kind->make(sizes, rank);
    if (!trains)
      std::erase_if(entries, [](const Entry &entry) {
        return entry.part != Part::Forward;
      });
    schedule.ranks.push_back(std::move(entries));
  }
  return schedule;
}

Result<std::vector<int64_t>>
polyrank::stage_order::getCoordinates(std::string_view text, int64_t ranks,
                                      int64_t chunks) {
  Sizes sizes{ranks, chunks, 1};
  if (auto ok = checkSizes(text, sizes); !ok)
    return ok.error();
  if (text.starts_with(filePrefix)) {
    std::string path(text.substr(filePrefix.size()));
    POLYRANK_ASSIGN(schedule, readScheduleFile(path));
    if (auto ok = checkStages(path, schedule, ranks, chunks); !ok)
      return ok.error();
    return schedule.coordinates;
  }
  POLYRANK_ASSIGN(kind, findKind(text));
  if (auto ok = checkChunks(*kind, chunks); !ok)
    return ok.error();
  return makeCoordinates(*kind, sizes);
}

std::vector<std::vector<int64_t>>
polyrank::stage_order::getStagesOfRanks(const Schedule &schedule) {
  std::vector<std::vector<int64_t>> stages(schedule.ranks.size());
  for (size_t stage = 0; stage < schedule.coordinates.size(); ++stage)
    stages[schedule.coordinates[stage]].push_back(stage);
  return stages;
}

Result<void>
polyrank::stage_order::checkMostAreThere(const Schedule &schedule) {
  int64_t numStages = schedule.coordinates.size(), entries = 0;
  for (const std::vector<Entry> &ofRank : schedule.ranks)
    entries += ofRank.size();
  int64_t needed = 0;
  if (__builtin_mul_overflow(numStages, schedule.microbatches, &needed) ||
      needed > 2 * entries)
    return Error{number(entries) + " entries for " + number(numStages) +
                 " stages and " + number(schedule.microbatches) +
                 " microbatches: most are missing"};
  return {};
}

std::string polyrank::stage_order::toString(const Entry &entry) {
  const char *letter = entry.part == Part::Forward          ? "F"
                       : entry.part == Part::BackwardWeight ? "W"
                                                            : "B";
  return letter + number(entry.chunk) + "." + number(entry.microbatch);
}
