// Reads and validates safetensors headers.

#include "support/safetensors/Safetensors.h"

#include "support/FileFormat.h"
#include "support/JsonBudget.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

namespace polyrank {
namespace {

constexpr uint64_t headerLimit = 100'000'000;
constexpr size_t rankLimit = 32;

/// Consumes the header's JSON event by event: it accepts only what the format
/// defines, and sees duplicate keys, which a document tree would drop. The
/// parser itself does not recurse.
class HeaderHandler : public nlohmann::json_sax<nlohmann::json> {
public:
  struct Entry {
    std::string name, dtype;
    std::vector<int64_t> shape;
    std::vector<uint64_t> offsets; // from the begin of the data
    bool hasDtype = false, hasShape = false, hasOffsets = false;
  };
  std::vector<Entry> entries;
  std::map<std::string, std::string> metadata;
  std::string problem;

  bool null() override { return refuse("a null"); }
  bool boolean(bool) override { return refuse("a boolean"); }
  bool number_integer(number_integer_t) override {
    return refuse("a negative number");
  }
  bool number_float(number_float_t, const string_t &text) override {
    return refuse("the number " + text);
  }
  bool binary(binary_t &) override { return refuse("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (state == State::Shape) {
      if (value > uint64_t(INT64_MAX) ||
          entries.back().shape.size() == rankLimit)
        return refuse("a shape of too many or too large dims");
      entries.back().shape.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (state == State::Offsets) {
      entries.back().offsets.push_back(value);
      return entries.back().offsets.size() <= 2 || refuse("a third offset");
    }
    return refuse("a number");
  }

  bool string(string_t &value) override {
    if (state == State::Metadata)
      metadata[lastKey] = value;
    else if (state == State::Tensor && lastKey == "dtype")
      entries.back().dtype = value;
    else
      return refuse("the string '" + value.substr(0, 100) + "'");
    return true;
  }

  bool start_object(size_t) override {
    if (state == State::Start)
      state = State::Top;
    else if (state == State::Top && lastKey == "__metadata__")
      state = State::Metadata;
    else if (state == State::Top) {
      entries.push_back({});
      entries.back().name = lastKey;
      state = State::Tensor;
    } else
      return refuse("an object");
    metadataKeys.clear();
    return true;
  }

  bool key(string_t &value) override {
    lastKey = value;
    if (state == State::Top)
      return names.insert(value).second || refuse("a second entry");
    if (state == State::Metadata)
      return metadataKeys.insert(value).second || refuse("a second entry");
    Entry &entry = entries.back();
    bool *seen = value == "dtype"          ? &entry.hasDtype
                 : value == "shape"        ? &entry.hasShape
                 : value == "data_offsets" ? &entry.hasOffsets
                                           : nullptr;
    if (!seen)
      return refuse("an unknown key");
    return !std::exchange(*seen, true) || refuse("a second entry");
  }

  bool end_object() override {
    if (state == State::Top) {
      state = State::End;
      return true;
    }
    if (state == State::Tensor) {
      const Entry &entry = entries.back();
      lastKey = entry.name;
      if (!entry.hasDtype || !entry.hasShape || entry.offsets.size() != 2)
        return refuse("an entry without dtype, shape and two data_offsets");
    }
    state = State::Top;
    return true;
  }

  bool start_array(size_t) override {
    if (state != State::Tensor || lastKey == "dtype")
      return refuse("an array");
    state = lastKey == "shape" ? State::Shape : State::Offsets;
    return true;
  }
  bool end_array() override {
    state = State::Tensor;
    return true;
  }

  bool parse_error(size_t position, const std::string &,
                   const nlohmann::detail::exception &) override {
    problem = "not JSON at byte " + std::to_string(position);
    return false;
  }

private:
  enum class State { Start, Top, Metadata, Tensor, Shape, Offsets, End };

  bool refuse(const std::string &what) {
    problem = what + " at '" + lastKey.substr(0, 200) + "'";
    return false;
  }

  State state = State::Start;
  std::string lastKey;
  std::set<std::string> names, metadataKeys;
};

Result<StoredTensorSpan> checkedSpan(HeaderHandler::Entry &entry,
                                     uint64_t dataSize,
                                     const std::string &path) {
  auto bad = [&](const std::string &what) {
    return Error{path + ": tensor '" + entry.name + "' " + what};
  };
  std::optional<ElementType> dtype =
      findElementType(&ElementTypeRow::safetensors, entry.dtype);
  if (!dtype)
    return bad("has the unknown dtype '" + entry.dtype + "'");
  uint64_t bits = rowOf(*dtype).bits;
  for (int64_t extent : entry.shape)
    if (__builtin_mul_overflow(bits, extent, &bits))
      return bad("has a shape that is too large");
  uint64_t begin = entry.offsets[0], end = entry.offsets[1];
  if (begin > end || end > dataSize)
    return bad("lies at [" + std::to_string(begin) + ", " +
               std::to_string(end) + ") of data that has " +
               std::to_string(dataSize) + " bytes");
  if (bits % 8 != 0 || bits / 8 != end - begin)
    return bad("needs " + std::to_string(bits) +
               " bits by its shape, but has " + std::to_string(end - begin) +
               " bytes");
  return StoredTensorSpan{std::move(entry.name), *dtype, std::move(entry.shape),
                          begin, end - begin};
}

} // namespace

Result<SafetensorsHeader>
readSafetensorsHeader(const std::string &what, std::string_view json,
                      std::optional<uint64_t> dataBytes) {
  HeaderHandler handler;
  if (json.empty() || json[0] != '{' ||
      !nlohmann::json::sax_parse(json, &handler))
    return Error{what + ": not a safetensors file: its header " +
                 (handler.problem.empty() ? "does not begin with {"
                                          : "has " + handler.problem)};
  SafetensorsHeader header;
  header.metadata = std::move(handler.metadata);
  for (HeaderHandler::Entry &entry : handler.entries) {
    POLYRANK_ASSIGN(span,
                    checkedSpan(entry, dataBytes.value_or(UINT64_MAX), what));
    header.tensors.push_back(std::move(span));
  }
  std::sort(header.tensors.begin(), header.tensors.end(), [](auto &a, auto &b) {
    return std::tie(a.offset, a.length, a.name) <
           std::tie(b.offset, b.length, b.name);
  });
  for (const StoredTensorSpan &span : header.tensors) {
    if (span.offset != header.dataBytes)
      return Error{
          what + ": tensor '" + span.name + "' begins at byte " +
          std::to_string(span.offset) + " of the data, where " +
          std::to_string(header.dataBytes) + " was expected: the tensors " +
          (span.offset < header.dataBytes ? "overlap" : "leave a hole")};
    header.dataBytes += span.length;
  }
  if (dataBytes && header.dataBytes != *dataBytes)
    return Error{what + ": " + std::to_string(*dataBytes - header.dataBytes) +
                 " bytes belong to no tensor"};
  return std::move(header);
}

Result<SafetensorsFile> SafetensorsFile::open(const std::string &path) {
  SafetensorsFile result;
  POLYRANK_ASSIGN(opened, InputFile::open(path));
  result.file = std::move(opened);
  uint64_t size = result.file.size(), headerSize = 0;
  std::string start(std::min<uint64_t>(size, formatBytes), '\0');
  if (auto done = result.file.readAt(0, start.data(), start.size()); !done)
    return done.error();
  if (std::string format = foreignFormat(start, WantedFile::Weights);
      !format.empty())
    return Error{path + ": " + format};
  if (size < 8)
    return Error{path + ": not a safetensors file: it has " +
                 std::to_string(size) + " bytes"};
  if (auto done = result.file.readAt(0, &headerSize, 8); !done)
    return done.error();
  if (headerSize > headerLimit || headerSize > size - 8)
    return Error{path +
                 ": not a safetensors file, or cut off: its header "
                 "would have " +
                 std::to_string(headerSize) + " bytes, the file has " +
                 std::to_string(size)};
  std::string header(headerSize, '\0');
  if (auto done = result.file.readAt(8, header.data(), headerSize); !done)
    return done.error();
  if (Budget budget(size); !takeJson(budget, header))
    return Error{path + ": " + budget.describe()};
  uint64_t dataStart = 8 + headerSize;
  POLYRANK_ASSIGN(stated,
                  readSafetensorsHeader(path, header, size - dataStart));
  result.notes = std::move(stated.metadata);
  result.spans = std::move(stated.tensors);
  for (size_t t = 0; t < result.spans.size(); ++t) {
    result.spans[t].offset += dataStart;
    result.byName[result.spans[t].name] = t;
  }
  return std::move(result);
}

const StoredTensorSpan *SafetensorsFile::find(std::string_view name) const {
  auto found = byName.find(name);
  return found == byName.end() ? nullptr : &spans[found->second];
}

Result<void> SafetensorsFile::read(const StoredTensorSpan &tensor,
                                   uint64_t begin, void *into,
                                   uint64_t size) const {
  if (begin > tensor.length || size > tensor.length - begin)
    return Error{path() + ": bytes [" + std::to_string(begin) + ", " +
                 std::to_string(begin) + " + " + std::to_string(size) +
                 ") of tensor '" + tensor.name + "' of " +
                 std::to_string(tensor.length)};
  return file.readAt(tensor.offset + begin, into, size);
}

} // namespace polyrank
