// Where code comes from in the user's sources.

#include "frontends/torchscript/DebugInfo.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace polyrank::frontends::torchscript {

using archive::PickleValue;
using Kind = PickleValue::Kind;

namespace {

bool isTuple(const PickleValue &value, size_t least) {
  return value.is(Kind::Tuple) && value.elements.size() >= least;
}

/// `FILE(LINE): FUNCTION`, as the tracer writes a frame.
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

/// Of frames, the innermost first.
std::optional<SourceLine> innermost(std::string_view stack) {
  std::optional<SourceLine> first;
  while (!stack.empty()) {
    size_t newline = std::min(stack.find('\n'), stack.size() - 1);
    auto frame = parseFrame(stack.substr(0, newline));
    stack.remove_prefix(newline + 1);
    if (!frame)
      continue;
    // What lies further out is the call of the tracer.
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
                                  const std::string &name) {
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
  for (const PickleValue *line : lines->elements) {
    // (offset, ((text, file, first line), start, end)[, tag])
    if (!isTuple(*line, 2) || !line->elements[0]->is(Kind::Int) ||
        !isTuple(*line->elements[1], 3))
      return fail();
    const auto &range = line->elements[1]->elements;
    if (!isTuple(*range[0], 3) || !range[1]->is(Kind::Int))
      return fail();
    const auto &source = range[0]->elements;
    Record record;
    record.offset = line->elements[0]->integer;
    record.start = range[1]->integer;
    if (!source[2]->is(Kind::Int) || source[2]->integer < 0 ||
        source[2]->integer > INT32_MAX)
      return fail();
    record.firstLine = source[2]->integer;
    if (!source[1]->is(Kind::None)) {
      record.file = textOf(*source[1]);
      if (!record.file)
        return fail();
      if (record.file->empty())
        record.file = nullptr;
    }
    std::vector<const PickleValue *> texts = {source[0]};
    if (source[0]->is(Kind::List))
      texts = source[0]->elements;
    for (const PickleValue *text : texts) {
      record.texts.push_back(textOf(*text));
      if (!record.texts.back())
        return fail();
    }
    result.records.push_back(std::move(record));
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
  std::string text;
  for (const std::string *part : record.texts) {
    if (text.size() + part->size() > 1 << 24)
      return std::nullopt; // one text many times over
    text += *part;
  }
  if (text.empty() || record.start < 0 || uint64_t(record.start) > text.size())
    return std::nullopt;
  // A trace's text is its stack, whether or not a file is named.
  if (auto frame = innermost(text))
    return frame;
  if (!record.file)
    return std::nullopt;
  int64_t before = std::count(text.begin(), text.begin() + record.start, '\n');
  return SourceLine{*record.file, record.firstLine + before};
}

} // namespace polyrank::frontends::torchscript
