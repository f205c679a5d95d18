// Maps code to the user's sources.

#include "frontends/torchscript/DebugInfo.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <unordered_map>

namespace polyrank::frontends::torchscript {

using archive::PickleValue;
using Kind = PickleValue::Kind;

namespace {

/// The longest text that is read; a longer one repeats one text many times.
constexpr int64_t maxText = 1 << 24;

bool isTuple(const PickleValue &value, size_t least) {
  return value.is(Kind::Tuple) && value.elements.size() >= least;
}

/// Parses `FILE(LINE): FUNCTION`, the tracer's form of a frame.
std::optional<SourceLine> parseFrame(std::string_view frame) {
  size_t close = frame.find("): "), open = frame.rfind('(', close);
  SourceLine result;
  if (close == frame.npos || open == frame.npos)
    return std::nullopt;
  const char *end = frame.data() + close;
  auto [rest, problem] =
      std::from_chars(frame.data() + open + 1, end, result.line);
  if (problem != std::errc() || rest != end)
    return std::nullopt;
  result.file = frame.substr(0, open);
  return result;
}

/// The line of the innermost frame that is not PyTorch's own, or else of the
/// innermost; frames come innermost first.
std::optional<SourceLine> innermost(std::string_view stack) {
  std::optional<SourceLine> first;
  while (!stack.empty()) {
    size_t newline = std::min(stack.find('\n'), stack.size() - 1);
    auto frame = parseFrame(stack.substr(0, newline));
    stack.remove_prefix(newline + 1);
    if (!frame)
      continue;
    // Frames further out belong to the call of the tracer.
    if (first && frame->file.find("/torch/jit/") != std::string::npos)
      break;
    if (frame->file.find("/torch/") == std::string::npos)
      return frame;
    if (!first)
      first = frame;
  }
  return first;
}

} // namespace

Result<DebugInfo> DebugInfo::read(archive::Pickle pickle,
                                  const std::string &name, Budget &budget) {
  auto fail = [&] {
    return Error{name + ": is no debug information that is understood"};
  };
  const PickleValue *table = nullptr, *lines = &pickle.root();
  if (!lines->is(Kind::Tuple))
    return fail();
  if (!lines->elements.empty() && lines->elements[0]->is(Kind::String)) {
    if (lines->elements.size() != 3 ||
        lines->elements[0]->text != "FORMAT_WITH_STRING_TABLE" ||
        !lines->elements[1]->is(Kind::Tuple) ||
        !lines->elements[2]->is(Kind::Tuple))
      return fail();
    table = lines->elements[1];
    lines = lines->elements[2];
  }
  auto textOf = [&](const PickleValue &value) -> const std::string * {
    if (!table)
      return value.is(Kind::String) ? &value.text : nullptr;
    if (!value.is(Kind::Int) || value.integer < 0 ||
        uint64_t(value.integer) >= table->elements.size())
      return nullptr;
    const PickleValue *text = table->elements[value.integer];
    return text->is(Kind::String) ? &text->text : nullptr;
  };
  DebugInfo result;
  // Sources are written once and shared, and so are their texts.
  std::unordered_map<const PickleValue *, size_t> numbers;
  std::unordered_map<const std::string *, int64_t> lineEnds;
  bool isTooLarge = false;
  auto sourceOf = [&](const PickleValue &value) -> std::optional<size_t> {
    auto [found, isNew] = numbers.try_emplace(&value, result.sources.size());
    if (!isNew)
      return found->second;
    Source source;
    if (!isTuple(value, 3) || !value.elements[2]->is(Kind::Int) ||
        value.elements[2]->integer < 0 ||
        value.elements[2]->integer > INT32_MAX)
      return std::nullopt;
    source.firstLine = value.elements[2]->integer;
    if (!value.elements[1]->is(Kind::None)) {
      source.file = textOf(*value.elements[1]);
      if (!source.file)
        return std::nullopt;
      if (source.file->empty())
        source.file = nullptr;
    }
    std::vector<const PickleValue *> texts = {value.elements[0]};
    if (value.elements[0]->is(Kind::List))
      texts = value.elements[0]->elements;
    // Sources may share one list of many texts.
    if (!budget.take(sizeof(Source) + texts.size() * 2 * sizeof(Source::Part)))
      isTooLarge = true;
    if (isTooLarge)
      return std::nullopt;
    int64_t lines = 0;
    for (const PickleValue *each : texts) {
      const std::string *text = textOf(*each);
      if (!text)
        return std::nullopt;
      source.parts.push_back({text, source.size, lines});
      source.size += text->size();
      auto [ends, isFirst] = lineEnds.try_emplace(text);
      if (isFirst)
        ends->second = std::count(text->begin(), text->end(), '\n');
      lines += ends->second;
    }
    result.sources.push_back(std::move(source));
    return found->second;
  };
  for (const PickleValue *line : lines->elements) {
    // A record is (offset, ((text, file, first line), start, end)[, tag]).
    if (!budget.take(2 * sizeof(Record)))
      return Error{name + ": " + budget.describe()};
    if (!isTuple(*line, 2) || !line->elements[0]->is(Kind::Int) ||
        !isTuple(*line->elements[1], 3))
      return fail();
    const auto &range = line->elements[1]->elements;
    auto source = sourceOf(*range[0]);
    if (isTooLarge)
      return Error{name + ": " + budget.describe()};
    if (!source || !range[1]->is(Kind::Int))
      return fail();
    result.records.push_back(
        {line->elements[0]->integer, range[1]->integer, *source});
  }
  if (!std::is_sorted(
          result.records.begin(), result.records.end(),
          [](const Record &a, const Record &b) { return a.offset < b.offset; }))
    return fail();
  result.pickle = std::move(pickle);
  return result;
}

std::optional<SourceLine> DebugInfo::find(uint32_t offset) const {
  auto after = std::upper_bound(
      records.begin(), records.end(), int64_t(offset),
      [](int64_t offset, const Record &r) { return offset < r.offset; });
  if (after == records.begin())
    return std::nullopt;
  const Record &record = *std::prev(after);
  const Source &source = sources[record.source];
  if (source.size == 0 || source.size > maxText || record.start < 0 ||
      record.start > source.size)
    return std::nullopt;
  // The text of a traced source is its stack, with or without a file name.
  if (!source.frame) {
    if (charactersLeft < source.size)
      return std::nullopt;
    charactersLeft -= source.size;
    std::string text;
    for (const Source::Part &part : source.parts)
      text += *part.text;
    source.frame = innermost(text);
  }
  if (*source.frame)
    return *source.frame;
  if (!source.file)
    return std::nullopt;
  int64_t characters = record.start - source.partAt(record.start).begin;
  if (charactersLeft < characters)
    return std::nullopt;
  charactersLeft -= characters;
  return SourceLine{*source.file, source.lineOf(record.start)};
}

const DebugInfo::Source::Part &DebugInfo::Source::partAt(int64_t start) const {
  return *std::prev(std::upper_bound(
      parts.begin(), parts.end(), start,
      [](int64_t start, const Part &part) { return start < part.begin; }));
}

int64_t DebugInfo::Source::lineOf(int64_t start) const {
  const Part &part = partAt(start);
  auto begin = part.text->begin();
  return firstLine + part.lines +
         std::count(begin, begin + (start - part.begin), '\n');
}

} // namespace polyrank::frontends::torchscript
