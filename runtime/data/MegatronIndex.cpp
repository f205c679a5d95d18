// Reads the index format of megatron/core/datasets/indexed_dataset.py.

#include "runtime/data/MegatronIndex.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <limits>

namespace polyrank::runtime {
namespace {

constexpr std::string_view magic("MMIDIDX\0\0", 9);
constexpr uint64_t headerBytes = 34;

std::optional<ElementType> typeOfCode(uint8_t code) {
  switch (code) {
  case 1:
    return ElementType::U8;
  case 2:
    return ElementType::I8;
  case 3:
    return ElementType::I16;
  case 4:
    return ElementType::I32;
  case 5:
    return ElementType::I64;
  case 8:
    return ElementType::U16;
  default:
    return std::nullopt;
  }
}

/// An array in the file, read from its begin to its end in large pieces.
template <typename T>
class Reader {
public:
  Reader(const InputFile &file, uint64_t offset, uint64_t count)
      : file(file), offset(offset), left(count) {}

  Result<T> next() {
    if (at == buffer.size()) {
      buffer.resize(std::min<uint64_t>(left, 1 << 16));
      at = 0;
      uint64_t bytes = buffer.size() * sizeof(T);
      if (Result<void> read = file.readAt(offset, buffer.data(), bytes); !read)
        return read.error();
      offset += bytes;
      left -= buffer.size();
    }
    return T(buffer[at++]);
  }

private:
  const InputFile &file;
  uint64_t offset, left;
  std::vector<T> buffer;
  size_t at = 0;
};

} // namespace

Result<bool> isMegatronIndex(const std::string &path) {
  Result<InputFile> file = InputFile::open(path);
  if (!file && file.error().cause == Error::Cause::Moment)
    return file.error();
  char start[magic.size()];
  if (!file || file->size() < sizeof(start))
    return false;
  if (Result<void> read = file->readAt(0, start, sizeof(start)); !read)
    return read.error();
  return std::string_view(start, sizeof(start)) == magic;
}

/// The type of the tokens and where the arrays are.
struct Header {
  ElementType type;
  uint64_t sequences, bounds;
  uint64_t lengthsAt, offsetsAt, boundsAt;
};

static Result<Header> readHeader(const InputFile &index) {
  const std::string &path = index.path();
  char header[headerBytes];
  if (index.size() < headerBytes)
    return Error{fmt::format("{}: has {} bytes, but an index of Megatron-LM "
                             "has {} before its arrays",
                             path, index.size(), headerBytes)};
  if (Result<void> read = index.readAt(0, header, headerBytes); !read)
    return read.error();
  if (std::string_view(header, magic.size()) != magic)
    return Error{path + ": is no index of Megatron-LM: it does not begin with "
                        "MMIDIDX"};
  uint64_t version, sequences, bounds;
  std::memcpy(&version, header + 9, 8);
  std::memcpy(&sequences, header + 18, 8);
  std::memcpy(&bounds, header + 26, 8);
  if (version != 1)
    return Error{
        fmt::format("{}: is of version {}; version 1 is read", path, version)};
  auto code = static_cast<uint8_t>(header[17]);
  auto type = typeOfCode(code);
  if (!type)
    return Error{fmt::format("{}: holds values of type {}, which are no "
                             "tokens: those are integers (1 to 5, and 8)",
                             path, code)};
  // The counts are clamped so that the sum cannot overflow.
  uint64_t most = index.size(), lengthsAt = headerBytes,
           offsetsAt = lengthsAt + 4 * std::min(sequences, most),
           boundsAt = offsetsAt + 8 * std::min(sequences, most),
           end = boundsAt + 8 * std::min(bounds, most);
  if (sequences > most || bounds > most || end != index.size())
    return Error{fmt::format(
        "{}: has {} bytes, but an index of {} sequences and {} bounds of "
        "documents has {}{}; was it copied whole? Sets of several media are "
        "not read",
        path, index.size(), sequences, bounds,
        sequences > most || bounds > most ? "more than " : "", end)};
  if (bounds == 0)
    return Error{path + ": has no bounds of documents, not even the first"};
  return Header{*type, sequences, bounds, lengthsAt, offsetsAt, boundsAt};
}

Result<MegatronIndex> readMegatronIndex(const InputFile &index,
                                        uint64_t dataBytes) {
  const std::string &path = index.path();
  POLYRANK_ASSIGN(header, readHeader(index));
  auto [type, sequences, bounds, lengthsAt, offsetsAt, boundsAt] = header;
  MegatronIndex result{type, 0, {}};
  auto bytes = static_cast<uint64_t>(bytesOf(type));
  Reader<int32_t> lengths(index, lengthsAt, sequences);
  Reader<int64_t> offsets(index, offsetsAt, sequences);
  Reader<int64_t> ends(index, boundsAt, bounds);
  POLYRANK_ASSIGN(firstBound, ends.next());
  if (firstBound != 0)
    return Error{fmt::format("{}: the first document begins at sequence {}, "
                             "not at 0",
                             path, firstBound)};
  uint64_t boundsRead = 1, bound = 0;
  // Reads the bounds at sequence `s`, which begins at token result.tokens.
  auto takeBounds = [&](uint64_t s) -> Result<void> {
    while (bound == s && boundsRead < bounds) {
      if (result.tokens >
          (result.documentEnds.empty() ? 0 : result.documentEnds.back()))
        result.documentEnds.push_back(result.tokens);
      POLYRANK_ASSIGN(next, ends.next());
      if (next < int64_t(bound) || next > int64_t(sequences))
        return Error{fmt::format(
            "{}: document {} begins at sequence {}, which is {}", path,
            boundsRead, next,
            next < int64_t(bound) ? fmt::format("before {}, where the one "
                                                "before it does",
                                                bound)
                                  : fmt::format("beyond all {}", sequences))};
      bound = uint64_t(next);
      ++boundsRead;
    }
    return {};
  };
  for (uint64_t s = 0; s < sequences; ++s) {
    if (Result<void> taken = takeBounds(s); !taken)
      return taken.error();
    POLYRANK_ASSIGN(length, lengths.next());
    POLYRANK_ASSIGN(offset, offsets.next());
    if (length < 0)
      return Error{
          fmt::format("{}: sequence {} has a length of {}", path, s, length)};
    if (offset != int64_t(result.tokens * bytes))
      return Error{fmt::format("{}: sequence {} begins at byte {} of the data, "
                               "but the one before it ends at {}",
                               path, s, offset, result.tokens * bytes)};
    result.tokens += uint64_t(length);
    if (result.tokens * bytes > dataBytes)
      break;
  }
  if (result.tokens * bytes != dataBytes)
    return Error{fmt::format(
        "{}: its sequences have {}{} bytes, but the data beside it has {}; do "
        "the two belong together?",
        path, result.tokens * bytes > dataBytes ? "at least " : "",
        result.tokens * bytes, dataBytes)};
  if (Result<void> taken = takeBounds(sequences); !taken)
    return taken.error();
  if (bound != sequences)
    return Error{fmt::format("{}: the last document ends at sequence {} of {}",
                             path, bound, sequences)};
  if (result.tokens > 0 && (result.documentEnds.empty() ||
                            result.documentEnds.back() != result.tokens))
    result.documentEnds.push_back(result.tokens);
  return std::move(result);
}

} // namespace polyrank::runtime
