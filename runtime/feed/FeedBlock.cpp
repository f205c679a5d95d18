// Reads headers of blocks, and rows of their arrays.

#include "runtime/feed/FeedBlock.h"

#include "support/Budget.h"
#include "support/JsonBudget.h"
#include "support/ModelDims.h"
#include "support/Names.h"
#include "support/arrays/Values.h"
#include "support/safetensors/Safetensors.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <fmt/format.h>

namespace polyrank::runtime {
namespace {

/// Returns the bytes as text if all of them are printable.
std::string asText(std::span<const std::byte> bytes) {
  std::string text;
  for (std::byte each : bytes) {
    auto c = std::to_integer<unsigned char>(each);
    if (!std::isprint(c) && !std::isspace(c))
      return "";
    text += std::isspace(c) ? ' ' : static_cast<char>(c);
  }
  return text;
}

Result<std::optional<uint64_t>> numberIn(const SafetensorsHeader &header,
                                         const std::string &key) {
  auto found = header.metadata.find(key);
  if (found == header.metadata.end())
    return std::optional<uint64_t>();
  const std::string &text = found->second;
  uint64_t number = 0;
  auto [end, fault] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault != std::errc() || end != text.data() + text.size())
    return Error{fmt::format("\"{}\" in the metadata of a block is '{}', which "
                             "is no number of a sample",
                             key, text.substr(0, 100))};
  return std::optional(number);
}

/// Returns the array of an input. Labels may be called `labels` if the plan has
/// no others.
Result<const StoredTensorSpan *> findArray(const SafetensorsHeader &header,
                                           const InputSpec &spec,
                                           bool hasOneLabels) {
  for (const std::string &name :
       {spec.name, std::string(spec.labels && hasOneLabels ? "labels" : "")})
    for (const StoredTensorSpan &each : header.tensors)
      if (!name.empty() && each.name == name)
        return &each;
  std::vector<std::string> names;
  std::string all;
  for (const StoredTensorSpan &each : header.tensors) {
    names.push_back(each.name);
    all += (all.empty() ? "" : ", ") + each.name;
  }
  return Error{fmt::format(
      "a block has no array '{}' for the input of that name; it has: {}{}",
      spec.name, all.empty() ? "none" : all, nearestWords(spec.name, names))};
}

Result<void> checkArray(const StoredTensorSpan &array, const InputSpec &spec) {
  if (!spec.takes(array.shape))
    return Error{fmt::format(
        "array '{}' of a block has shape {}, but input '{}' takes {}",
        array.name, shapeText(array.shape), spec.name,
        spec.hasBatch() ? samplesText(spec.rowShape, spec.batchDim)
                        : shapeText(spec.rowShape))};
  if (!canConvert(array.dtype, spec.dtype))
    return Error{fmt::format(
        "array '{}' of a block holds {}, but input '{}' takes {}", array.name,
        longNameOf(array.dtype), spec.name, nameOf(spec.dtype))};
  return {};
}

} // namespace

Result<uint64_t> feedHeaderLength(std::span<const std::byte> bytes) {
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  if (length <= feedHeaderLimit && length > 1)
    return length;
  std::string text = asText(bytes.first(sizeof(length)));
  return Error{fmt::format(
      "a block begins with the length of its header, but here are the bytes "
      "{}; polyrank.feed() of Python writes blocks, and docs/data-files.md "
      "describes them",
      text.empty() ? fmt::format("of the number {}", length)
                   : "'" + text +
                         "', which are text: what a program prints "
                         "does not belong into a feed")};
}

Result<FeedBlock> readFeedBlock(std::string_view text,
                                std::span<const InputSpec> inputs,
                                uint64_t dataLimit) {
  if (Budget budget(text.size()); !takeJson(budget, text))
    return Error{"the header of a block: " + budget.describe()};
  POLYRANK_ASSIGN(header, readSafetensorsHeader("a block", text, std::nullopt));
  FeedBlock block;
  POLYRANK_ASSIGN(sample, numberIn(header, "sample"));
  block.sample = sample;
  if (header.metadata.contains("end")) {
    if (!header.tensors.empty())
      return Error{"the block with which the feed ends has arrays; they belong "
                   "into blocks before it"};
    block.isEnd = true;
    return block;
  }
  block.dataBytes = header.dataBytes;
  if (block.dataBytes > dataLimit)
    return Error{fmt::format("a block has {} bytes of arrays, and at most {} "
                             "are read at once; write fewer rows in each block",
                             block.dataBytes, dataLimit)};
  auto numLabels =
      std::count_if(inputs.begin(), inputs.end(),
                    [](const InputSpec &each) { return each.labels; });
  const StoredTensorSpan *counted = nullptr;
  for (const InputSpec &spec : inputs) {
    POLYRANK_ASSIGN(array, findArray(header, spec, numLabels == 1));
    if (Result<void> fits = checkArray(*array, spec); !fits)
      return fits.error();
    block.arrays.push_back({array->dtype, array->offset, array->length});
    if (!spec.hasBatch())
      continue;
    auto rows =
        static_cast<uint64_t>(array->shape[static_cast<size_t>(spec.batchDim)]);
    if (counted && rows != block.rows)
      return Error{fmt::format("a block has {} rows of '{}', but {} of '{}'",
                               rows, array->name, block.rows, counted->name)};
    block.rows = rows;
    counted = array;
  }
  if (!counted)
    return Error{"no input of the plan has a batch, so a feed cannot have rows "
                 "of them; give a .npz set"};
  if (block.rows == 0)
    return Error{"a block has no rows; a feed ends with a block whose metadata "
                 "have \"end\""};
  return block;
}

Result<void> convertRows(const FeedRows &rows, const InputSpec &spec,
                         std::span<const std::byte> data, std::byte *into) {
  const FeedBlock::Array &array = rows.block.arrays[rows.input];
  int64_t inner = spec.rowElements(std::max<int64_t>(0, spec.batchDim)),
          outer = spec.hasBatch()
                      ? spec.rowElements() / std::max<int64_t>(1, inner)
                      : 1,
          stored = bytesOf(array.dtype), bytes = bytesOf(spec.dtype);
  uint64_t count = spec.hasBatch() ? rows.count : 1;
  for (uint64_t row = 0; row < count; ++row)
    for (int64_t o = 0; o < outer; ++o) {
      uint64_t number = spec.hasBatch() ? rows.first + row : 0;
      int64_t element = spec.hasBatch()
                            ? (o * static_cast<int64_t>(rows.block.rows) +
                               static_cast<int64_t>(number)) *
                                  inner
                            : 0;
      std::byte *to =
          into + (static_cast<int64_t>(row) * outer + o) * inner * bytes;
      auto bad = convertValues(array.dtype,
                               data.data() + array.offset +
                                   static_cast<uint64_t>(element * stored),
                               inner, spec.dtype, spec.range, to);
      if (!bad && !rows.allowsNan && isFloat(spec.dtype))
        if (int64_t at = findNan(spec.dtype, to, inner); at != inner)
          bad = BadValue{at, "nan"};
      if (!bad)
        continue;
      std::string takes = nameOf(spec.dtype);
      if (spec.range.limit)
        takes += fmt::format(" in [0, {})", spec.range.limit);
      if (bad->value == "nan")
        takes = "no NaN without --allow-nan";
      return Error{fmt::format(
          "value {} at element {} of sample {} of array '{}', but input '{}' "
          "takes {}",
          bad->value, o * inner + bad->index, rows.sample + number, spec.name,
          spec.name, takes)};
    }
  return {};
}

} // namespace polyrank::runtime
