// Token types by name, and by the look of the bytes.

#include "runtime/data/TokenTypes.h"

#include "support/Names.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace polyrank::runtime {
namespace {

/// The values of --token-type.
constexpr ElementType tokenTypes[] = {ElementType::U8, ElementType::U16,
                                      ElementType::U32, ElementType::I32,
                                      ElementType::I64};
constexpr const char *namesOfTypes = "uint8, uint16, uint32, int32 or int64";

// The sampled part of a file: this many blocks, spread over it.
constexpr int64_t blocks = 16, blockBytes = 4096;
// Fewer values are not conclusive.
constexpr size_t leastValues = 16;

/// Reads some of the file's bytes, from offsets that are aligned for every
/// type.
Result<std::vector<std::byte>> sampleOf(const StoredArray &tokens) {
  int64_t width = bytesOf(tokens.type()), bytes = tokens.elements() * width;
  std::vector<std::byte> sample;
  int64_t end = 0;
  for (int64_t b = 0; b < blocks && end < bytes; ++b) {
    int64_t even = (bytes - blockBytes) / (blocks - 1) * b / 8 * 8,
            begin = std::max(end, even),
            count = std::min(blockBytes, bytes - begin);
    end = begin + count;
    sample.resize(sample.size() + count);
    if (Result<void> read = tokens.read(begin / width, count / width,
                                        sample.data() + sample.size() - count);
        !read)
      return read.error();
  }
  return std::move(sample);
}

/// Returns value number `index`, of `width` bytes each.
uint64_t valueAt(const std::vector<std::byte> &bytes, size_t index,
                 size_t width) {
  uint64_t value = 0;
  std::memcpy(&value, bytes.data() + index * width, width);
  return value;
}

/// Returns true if the values, read as `width` bytes each, are ids below
/// `limit`, and are unlikely to be so by chance if each is really `narrow`
/// bytes.
bool areWider(const std::vector<std::byte> &sample, size_t narrow, size_t width,
              uint64_t limit) {
  size_t count = sample.size() / width;
  // The bound on the upper parts. If it is large, narrow ids may all be below
  // it.
  constexpr uint64_t largest = 8;
  uint64_t bound = (limit - 1) >> (8 * narrow);
  if (count < leastValues || bound >= largest)
    return false;
  bool anyLarger = false; // else both halves look the same
  for (size_t v = 0; v < count; ++v) {
    uint64_t value = valueAt(sample, v, width);
    if (value >= limit)
      return false;
    anyLarger |= (value & ((uint64_t(1) << (8 * narrow)) - 1)) > bound;
  }
  return anyLarger;
}

} // namespace

std::string suffixOf(const std::string &path) {
  size_t slash = path.rfind('/'), dot = path.rfind('.');
  if (dot == std::string::npos || (slash != std::string::npos && dot < slash))
    return "";
  std::string suffix = path.substr(dot);
  for (char &c : suffix)
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 'a' - 'A') : c;
  return suffix;
}

Result<ElementType> tokenTypeOf(const std::string &path,
                                const std::string &given) {
  std::string name = given, suffix = suffixOf(path);
  if (name.empty()) {
    if (suffix == ".bin" || suffix == ".u16")
      name = "uint16";
    else if (suffix == ".u32")
      name = "uint32";
    else if (suffix == ".txt" || suffix == ".u8")
      name = "uint8";
    else
      return Error{fmt::format(
          "{}: {}; text becomes tokens by polyrank tokenize, tokens are "
          "written as uint16 into a .bin and arrays into a .npz, anything else "
          "is read by a loader of yours (--data 'command:python3 loader.py'); "
          "where it is a row of plain tokens, give their type: --token-type {}",
          path,
          suffix.empty() ? "the name does not say what it holds"
                         : "files called " + suffix + " are not read",
          namesOfTypes)};
  }
  std::optional<ElementType> type =
      findElementType(&ElementTypeRow::longName, name);
  if (!type || std::find(std::begin(tokenTypes), std::end(tokenTypes), *type) ==
                   std::end(tokenTypes))
    return Error{fmt::format("tokens of type '{}' are not read; use {}", name,
                             namesOfTypes)};
  return *type;
}

Result<void> refuseWiderTokens(const StoredArray &tokens, int64_t limit) {
  size_t narrow = bytesOf(tokens.type());
  uint64_t bytes = uint64_t(tokens.elements()) * narrow;
  // Without a vocabulary the upper parts must be 0.
  uint64_t below = limit > 0 ? uint64_t(limit) : uint64_t(1) << (8 * narrow);
  std::vector<std::byte> sample;
  for (size_t width : {8, 4, 2}) {
    if (width <= narrow || bytes % width != 0)
      continue;
    if (sample.empty()) {
      POLYRANK_ASSIGN(read, sampleOf(tokens));
      sample = std::move(read);
    }
    if (!areWider(sample, narrow, width, below))
      continue;
    ElementType fits = width == 8   ? ElementType::I64
                       : width == 4 ? ElementType::I32
                                    : ElementType::U16;
    return Error{fmt::format(
        "{}: its name says {} tokens, but these are values of {} bytes each: "
        "only the first of every {} {} values is more than {}, which is how "
        "{} tokens are stored. Give --token-type {}, or --token-type {} if "
        "they are meant so",
        tokens.path(), longNameOf(tokens.type()), width, width / narrow,
        longNameOf(tokens.type()), (below - 1) >> (8 * narrow),
        width == 4 ? "uint32 and int32" : longNameOf(fits), longNameOf(fits),
        longNameOf(tokens.type()))};
  }
  return {};
}

std::string otherTypeThatFits(const StoredArray &tokens, int64_t limit) {
  Result<std::vector<std::byte>> sample = sampleOf(tokens);
  uint64_t bytes = uint64_t(tokens.elements()) * bytesOf(tokens.type());
  if (!sample || sample->empty())
    return "";
  // Bytes fit nearly any vocabulary, so they are tried last. 32-bit ids are the
  // same signed and unsigned.
  for (ElementType type : {ElementType::U16, ElementType::I32, ElementType::I64,
                           ElementType::U8}) {
    size_t width = bytesOf(type), count = sample->size() / width;
    if (width == size_t(bytesOf(tokens.type())) || bytes % width != 0)
      continue;
    bool fits = true;
    for (size_t v = 0; fits && v < count; ++v)
      fits = valueAt(*sample, v, width) < uint64_t(limit);
    if (fits)
      return longNameOf(type);
  }
  return "";
}

} // namespace polyrank::runtime
