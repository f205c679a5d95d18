// Writes and reads the fields of messages. The same function describes a
// message for both, so that they cannot differ.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace polyrank::runtime::net {

/// Appends fields. Integers are little-endian.
class WireWriter {
public:
  static constexpr bool isReader = false;

  template <class Integer>
  void integer(Integer value) {
    static_assert(std::is_integral_v<Integer>);
    for (size_t i = 0; i < sizeof(Integer); ++i)
      bytes.push_back(static_cast<uint8_t>(
          static_cast<std::make_unsigned_t<Integer>>(value) >> (8 * i)));
  }
  void flag(bool value) { bytes.push_back(value); }
  /// A value of an enumeration, of which `last` is the last one.
  template <class Enum>
  void choice(Enum value, Enum) {
    integer(static_cast<uint32_t>(value));
  }
  /// Cuts what is longer than `most` bytes.
  void text(const std::string &value, size_t most) {
    size_t length = std::min(value.size(), most);
    integer(static_cast<uint32_t>(length));
    bytes.insert(bytes.end(), value.begin(),
                 value.begin() + static_cast<ptrdiff_t>(length));
  }
  /// Cuts what is longer than `most` bytes.
  void blob(const std::vector<uint8_t> &value, size_t most) {
    size_t length = std::min(value.size(), most);
    integer(static_cast<uint32_t>(length));
    raw({value.data(), length});
  }
  void raw(std::span<const uint8_t> value) {
    bytes.insert(bytes.end(), value.begin(), value.end());
  }
  /// A list of at most `most` elements, of at least `least` bytes each.
  template <class Element, class Function>
  void list(std::vector<Element> &values, size_t most, size_t,
            Function &&field) {
    size_t count = std::min(values.size(), most);
    integer(static_cast<uint32_t>(count));
    for (size_t i = 0; i < count; ++i)
      field(*this, values[i]);
  }

  std::vector<uint8_t> bytes;
};

/// Takes fields off the front. After the first one that is cut or out of bounds
/// all are zero or empty, and `hasFailed` is true. Memory is taken only for
/// what is there.
class WireReader {
public:
  static constexpr bool isReader = true;

  explicit WireReader(std::span<const uint8_t> bytes) : rest(bytes) {}

  template <class Integer>
  void integer(Integer &value) {
    static_assert(std::is_integral_v<Integer>);
    value = 0;
    if (!has(sizeof(Integer)))
      return;
    std::make_unsigned_t<Integer> read = 0;
    for (size_t i = 0; i < sizeof(Integer); ++i)
      read = static_cast<std::make_unsigned_t<Integer>>(
          read | std::make_unsigned_t<Integer>(rest[i]) << (8 * i));
    value = static_cast<Integer>(read);
    rest = rest.subspan(sizeof(Integer));
  }
  void flag(bool &value) {
    uint8_t byte = 0;
    integer(byte);
    if (byte > 1)
      fail();
    value = byte == 1 && !failed;
  }
  template <class Enum>
  void choice(Enum &value, Enum last) {
    uint32_t number = 0;
    integer(number);
    if (number > static_cast<uint32_t>(last))
      fail();
    value = failed ? Enum() : static_cast<Enum>(number);
  }
  void text(std::string &value, size_t most) {
    uint32_t length = 0;
    integer(length);
    value.clear();
    if (length > most || !has(length))
      return fail();
    value.assign(reinterpret_cast<const char *>(rest.data()), length);
    rest = rest.subspan(length);
  }
  void blob(std::vector<uint8_t> &value, size_t most) {
    uint32_t length = 0;
    integer(length);
    value.clear();
    if (length > most || !has(length))
      return fail();
    value.assign(rest.begin(), rest.begin() + ptrdiff_t(length));
    rest = rest.subspan(length);
  }
  void raw(std::span<uint8_t> value) {
    if (!has(value.size()))
      return;
    std::memcpy(value.data(), rest.data(), value.size());
    rest = rest.subspan(value.size());
  }
  template <class Element, class Function>
  void list(std::vector<Element> &values, size_t most, size_t least,
            Function &&field) {
    uint32_t count = 0;
    integer(count);
    values.clear();
    if (count > most || count > rest.size() / least)
      return fail();
    for (uint32_t i = 0; i < count && !failed; ++i) {
      values.emplace_back();
      field(*this, values.back());
    }
  }

  void fail() {
    failed = true;
    rest = {};
  }
  bool hasFailed() const { return failed; }
  /// True if all bytes were read and none was missing.
  bool isDone() const { return !failed && rest.empty(); }

private:
  bool has(size_t count) {
    if (rest.size() < count)
      fail();
    return !failed;
  }

  std::span<const uint8_t> rest;
  bool failed = false;
};

} // namespace polyrank::runtime::net
