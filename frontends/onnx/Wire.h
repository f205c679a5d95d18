// What the readers of ONNX's messages share: fields of protobuf's wire format,
// and limits. Only the readers include this, since protozero throws.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "support/Budget.h"

#include <protozero/pbf_reader.hpp>

namespace polyrank::frontends::onnx {

using protozero::pbf_reader;
using protozero::pbf_wire_type;

/// Thrown if a file is not a model; never leaves the readers.
struct Malformed {
  std::string message;
};

inline std::string_view view(pbf_reader &reader) {
  auto data = reader.get_view();
  return {data.data(), data.size()};
}

/// A switch label for a field number with its wire type: a field with another
/// wire type than that of its schema is skipped, as protobuf does.
constexpr uint32_t field(uint32_t number, pbf_wire_type type) {
  return protozero::tag_and_type(number, type);
}
constexpr auto Varint = pbf_wire_type::varint;
constexpr auto Bytes = pbf_wire_type::length_delimited;
constexpr auto Fixed32 = pbf_wire_type::fixed32;
constexpr auto Fixed64 = pbf_wire_type::fixed64;

/// The most dims of a tensor.
constexpr size_t maxRank = 64;

/// Limits the contents of one file.
class EntityCount {
public:
  explicit EntityCount(uint64_t fileBytes) : budget(fileBytes) {}

  /// Counts a node, attribute, tensor or name of `bytes`.
  void add(uint64_t bytes) {
    constexpr int64_t most = 1 << 23;
    if (++count > most)
      throw Malformed{"holds more than " + std::to_string(most) +
                      " nodes, attributes and tensors"};
    addNumbers(bytes);
  }
  /// Counts numbers or elements, `bytes` in total. Vectors grow by doubling.
  void addNumbers(uint64_t bytes) {
    if (!budget.take(2 * bytes))
      throw Malformed{budget.describe()};
  }

private:
  int64_t count = 0;
  Budget budget;
};

/// Reads a StringStringEntryProto.
std::pair<std::string_view, std::string_view> readEntry(pbf_reader in,
                                                        EntityCount &entities);

} // namespace polyrank::frontends::onnx
