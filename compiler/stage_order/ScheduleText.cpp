// Parses and writes schedules as text.

#include "compiler/stage_order/ScheduleText.h"

#include "support/File.h"

#include <algorithm>
#include <charconv>
#include <optional>

using namespace polyrank;
using namespace polyrank::stage_order;

namespace {

std::string number(int64_t value) { return std::to_string(value); }

/// Quotes a word of a file that may be binary.
std::string quote(std::string_view word) {
  constexpr size_t most = 24;
  std::string text;
  for (char c : word.substr(0, most))
    text += c > 0x20 && c < 0x7f ? c : '?';
  return "'" + text + (word.size() > most ? "..'" : "'");
}

/// Parses decimal digits; nullopt if there are none or the number exceeds
/// `most`.
std::optional<int64_t> readNumber(std::string_view text, int64_t most) {
  int64_t value = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || text[0] == '-' || error != std::errc() ||
      end != text.data() + text.size() || value > most)
    return std::nullopt;
  return value;
}

/// Removes the first word from `line` and returns it; empty at the end.
std::string_view takeWord(std::string_view &line) {
  constexpr std::string_view spaces = " \t\r";
  line.remove_prefix(std::min(line.find_first_not_of(spaces), line.size()));
  std::string_view word = line.substr(0, line.find_first_of(spaces));
  line.remove_prefix(word.size());
  return word;
}

class Reader {
public:
  explicit Reader(const std::string &path) : path(path) {}

  Result<Schedule> read(std::string_view text) {
    while (!text.empty()) {
      ++line;
      size_t end = std::min(text.find('\n'), text.size());
      std::string_view content = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      content = content.substr(0, content.find('#'));
      if (auto ok = readLine(content); !ok)
        return ok.error();
    }
    return finish();
  }

private:
  Error fail(const std::string &what) const {
    return {path + ":" + number(line) + ": " + what};
  }

  Result<void> readLine(std::string_view content) {
    std::string_view rest = content, word = takeWord(rest);
    if (word.empty())
      return {};
    if (word == "stages")
      return readStages(rest);
    if (int64_t(schedule.ranks.size()) == mostStages)
      return fail("more than " + number(mostStages) + " ranks");
    schedule.ranks.emplace_back();
    lines.push_back(line);
    for (; !word.empty(); word = takeWord(rest)) {
      if (++entries > mostEntries)
        return fail("more than " + number(mostEntries) + " entries");
      if (auto ok = readEntry(word); !ok)
        return ok;
    }
    return {};
  }

  Result<void> readStages(std::string_view rest) {
    if (!schedule.ranks.empty() || !schedule.coordinates.empty())
      return fail("'stages' stands once, in front of the ranks");
    for (std::string_view word = takeWord(rest); !word.empty();
         word = takeWord(rest)) {
      std::optional<int64_t> rank = readNumber(word, mostStages - 1);
      if (!rank)
        return fail(quote(word) +
                    " is no rank of the pipe axis: a number up "
                    "to " +
                    number(mostStages - 1) + " is expected for each stage");
      if (int64_t(schedule.coordinates.size()) == mostStages)
        return fail("more than " + number(mostStages) + " stages");
      schedule.coordinates.push_back(*rank);
    }
    if (schedule.coordinates.empty())
      return fail("'stages' names the rank of each stage, as in 'stages 0 1 1 "
                  "0', and here it names none");
    return {};
  }

  Result<void> readEntry(std::string_view word) {
    Entry entry;
    switch (word[0]) {
    case 'F':
      entry.part = Part::Forward;
      break;
    case 'B':
      entry.part = Part::Backward;
      break;
    case 'W':
      entry.part = Part::BackwardWeight;
      schedule.splitsBackward = true;
      break;
    default:
      return fail(quote(word) +
                  " is no entry: F0.3, B0.3 or W0.3 is expected, for chunk 0 "
                  "and microbatch 3, or F3");
    }
    std::string_view rest = word.substr(1);
    size_t dot = rest.find('.');
    if (dot != std::string_view::npos) {
      std::optional<int64_t> chunk =
          readNumber(rest.substr(0, dot), mostStages - 1);
      if (!chunk)
        return fail("the chunk of " + quote(word) + " is no number up to " +
                    number(mostStages - 1));
      entry.chunk = static_cast<int32_t>(*chunk);
      rest.remove_prefix(dot + 1);
    }
    std::optional<int64_t> microbatch = readNumber(rest, mostMicrobatches - 1);
    if (!microbatch)
      return fail("the microbatch of " + quote(word) + " is no number up to " +
                  number(mostMicrobatches - 1));
    entry.microbatch = static_cast<int32_t>(*microbatch);
    schedule.microbatches = std::max(schedule.microbatches, *microbatch + 1);
    numChunks = std::max<int64_t>(numChunks, entry.chunk + 1);
    schedule.ranks.back().push_back(entry);
    return {};
  }

  /// The checks that need the whole text.
  Result<Schedule> finish() {
    int64_t ranks = schedule.ranks.size();
    if (ranks == 0)
      return Error{path + ": has no ranks: a line of entries is expected for "
                          "each rank of the pipe axis"};
    if (schedule.coordinates.empty()) {
      if (ranks * numChunks > mostStages)
        return Error{path + ": " + number(ranks) + " ranks of " +
                     number(numChunks) + " chunks are more than " +
                     number(mostStages) + " stages"};
      for (int64_t stage = 0; stage < ranks * numChunks; ++stage)
        schedule.coordinates.push_back(stage % ranks);
    }
    std::vector<int64_t> chunks(ranks);
    for (int64_t rank : schedule.coordinates) {
      if (rank >= ranks)
        return Error{path + ": 'stages' names rank " + number(rank) +
                     ", and there are lines for " + number(ranks) + ", from 0"};
      ++chunks[rank];
    }
    for (int64_t rank = 0; rank < ranks; ++rank)
      for (Entry &entry : schedule.ranks[rank]) {
        if (entry.chunk >= chunks[rank])
          return Error{path + ":" + number(lines[rank]) + ": '" +
                       toString(entry) + "' is of chunk " +
                       number(entry.chunk) + ", and rank " + number(rank) +
                       " has " + number(chunks[rank]) + " stages, from 0"};
        if (schedule.splitsBackward && entry.part == Part::Backward)
          entry.part = Part::BackwardInput;
      }
    return std::move(schedule);
  }

  const std::string &path;
  int64_t line = 0, entries = 0, numChunks = 1;
  std::vector<int64_t> lines; // of ranks
  Schedule schedule;
};

} // namespace

Result<Schedule> polyrank::stage_order::readSchedule(std::string_view text,
                                                     const std::string &path) {
  return Reader(path).read(text);
}

Result<Schedule>
polyrank::stage_order::readScheduleFile(const std::string &path) {
  POLYRANK_ASSIGN(file, InputFile::open(path));
  if (file.size() > longestText)
    return Error{path + ": has " + std::to_string(file.size()) +
                 " bytes; schedules of up to " + std::to_string(longestText) +
                 " are read"};
  std::string text(file.size(), '\0');
  if (auto ok = file.readAt(0, text.data(), text.size()); !ok)
    return ok.error();
  return readSchedule(text, path);
}

std::string polyrank::stage_order::writeSchedule(const Schedule &schedule) {
  std::string text = "stages";
  for (int64_t rank : schedule.coordinates)
    text += " " + number(rank);
  text += "\n";
  for (const std::vector<Entry> &entries : schedule.ranks) {
    for (size_t i = 0; i < entries.size(); ++i)
      text += (i == 0 ? "" : " ") + toString(entries[i]);
    text += "\n";
  }
  return text;
}
