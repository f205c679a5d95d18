// Conversion between element types, with one loop per pair of types.

#include "support/arrays/Values.h"

#include "support/Float16.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <type_traits>
#include <utility>

namespace polyrank {
namespace {

struct TypeRow {
  const char *name;
  int bytes;
};
constexpr TypeRow typeRows[] = {{"uint8", 1},   {"uint16", 2},  {"uint32", 4},
                                {"uint64", 8},  {"int8", 1},    {"int16", 2},
                                {"int32", 4},   {"int64", 8},   {"float16", 2},
                                {"float32", 4}, {"float64", 8}, {"bool", 1}};

// Stored types that have no C++ type.
struct Half {
  uint16_t bits;
};
struct BrainHalf {
  uint16_t bits;
};
struct Boolean {
  uint8_t value;
};

template <typename Visitor>
auto visitSource(ValueType type, Visitor visitor) {
  switch (type) {
  case ValueType::U8:
    return visitor(uint8_t());
  case ValueType::U16:
    return visitor(uint16_t());
  case ValueType::U32:
    return visitor(uint32_t());
  case ValueType::U64:
    return visitor(uint64_t());
  case ValueType::I8:
    return visitor(int8_t());
  case ValueType::I16:
    return visitor(int16_t());
  case ValueType::I32:
    return visitor(int32_t());
  case ValueType::I64:
    return visitor(int64_t());
  case ValueType::F16:
    return visitor(Half());
  case ValueType::F32:
    return visitor(float());
  case ValueType::F64:
    return visitor(double());
  case ValueType::BOOL:
    break;
  }
  return visitor(Boolean());
}

template <typename Visitor>
auto visitTarget(DType type, Visitor visitor) {
  switch (type) {
  case DType::F32:
    return visitor(float());
  case DType::F64:
    return visitor(double());
  case DType::BF16:
    return visitor(BrainHalf());
  case DType::F16:
    return visitor(Half());
  case DType::I8:
    return visitor(int8_t());
  case DType::U8:
    return visitor(uint8_t());
  case DType::I32:
    return visitor(int32_t());
  case DType::I64:
    return visitor(int64_t());
  case DType::BOOL:
    break;
  }
  return visitor(Boolean());
}

/// Converts a value to an arithmetic type that represents it exactly.
template <typename T>
T arithmetic(T value) {
  return value;
}
float arithmetic(Half value) { return floatFromFloat16(value.bits); }
uint8_t arithmetic(Boolean value) { return value.value != 0; }

/// Stores an arithmetic value; returns false if it does not fit.
template <typename S, typename T>
bool storeValue(S value, T &to) {
  if constexpr (std::is_integral_v<T>) {
    if constexpr (!std::is_integral_v<S>)
      return false;
    else if (!std::in_range<T>(value))
      return false;
    else
      to = static_cast<T>(value);
    return true;
  } else if constexpr (std::is_same_v<T, Boolean>) {
    to.value = value != 0;
    return value == 0 || value == 1;
  } else {
    // Every integer up to 2^digits is exact; digits includes the hidden bit.
    constexpr int digits = std::is_same_v<T, float>    ? 24
                           : std::is_same_v<T, double> ? 53
                           : std::is_same_v<T, Half>   ? 11
                                                       : 8;
    if constexpr (std::is_integral_v<S>) {
      constexpr int64_t limit = int64_t(1) << digits;
      if (std::cmp_greater(value, limit) || std::cmp_less(value, -limit))
        return false;
    }
    if constexpr (std::is_same_v<T, double>) {
      to = static_cast<double>(value);
      return true;
    } else {
      float narrow = static_cast<float>(value), kept = narrow;
      if constexpr (std::is_same_v<T, float>) {
        to = narrow;
      } else if constexpr (std::is_same_v<T, Half>) {
        to.bits = float16FromFloat(narrow);
        kept = floatFromFloat16(to.bits);
      } else {
        to.bits = bfloat16FromFloat(narrow);
        kept = floatFromBFloat16(to.bits);
      }
      if constexpr (std::is_floating_point_v<S>)
        return !std::isinf(kept) || std::isinf(value);
      return true;
    }
  }
}

/// Converts up to the first value that does not fit, and returns its index.
template <typename S, typename T>
int64_t convertAll(const std::byte *source, int64_t count,
                   const IndexRange &range, std::byte *result) {
  for (int64_t n = 0; n < count; ++n) {
    S raw;
    T converted;
    std::memcpy(&raw, source + n * sizeof(S), sizeof(S));
    auto value = arithmetic(raw);
    if (!storeValue(value, converted))
      return n;
    if constexpr (std::is_integral_v<T>)
      if (range.limit != 0 && std::cmp_not_equal(converted, range.ignore) &&
          (std::cmp_less(converted, 0) ||
           std::cmp_greater_equal(converted, range.limit)))
        return n;
    std::memcpy(result + n * sizeof(T), &converted, sizeof(T));
  }
  return count;
}

/// The index of the first of `count` floats whose bits, without the sign, are
/// at least `least`; or `count`.
template <typename Bits>
int64_t findAtLeast(const std::byte *data, int64_t count, Bits least) {
  constexpr int64_t block = 4096; // one test per block, so that the loop
                                  // vectorizes
  auto isFound = [&](int64_t i) {
    Bits bits;
    std::memcpy(&bits, data + i * sizeof(Bits), sizeof(Bits));
    return Bits(bits << 1) >= Bits(least << 1);
  };
  for (int64_t begin = 0; begin < count; begin += block) {
    int64_t end = std::min(begin + block, count);
    bool any = false;
    for (int64_t i = begin; i < end; ++i)
      any |= isFound(i);
    for (int64_t i = begin; any && i < end; ++i)
      if (isFound(i))
        return i;
  }
  return count;
}

/// The index of the first infinity or NaN; with `beyond`, of the first NaN.
int64_t findInfinity(DType dtype, const std::byte *data, int64_t count,
                     bool beyond) {
  switch (dtype) {
  case DType::F64:
    return findAtLeast<uint64_t>(data, count, 0x7ff0000000000000 + beyond);
  case DType::F32:
    return findAtLeast<uint32_t>(data, count, 0x7f800000 + beyond);
  case DType::F16:
    return findAtLeast<uint16_t>(data, count, 0x7c00 + beyond);
  case DType::BF16:
    return findAtLeast<uint16_t>(data, count, 0x7f80 + beyond);
  default:
    return count;
  }
}

} // namespace

int64_t findNan(DType dtype, const std::byte *data, int64_t count) {
  return findInfinity(dtype, data, count, true);
}

bool areFinite(DType dtype, const std::byte *data, int64_t count) {
  return findInfinity(dtype, data, count, false) == count;
}

int64_t bytesOf(ValueType type) { return typeRows[int(type)].bytes; }
const char *nameOf(ValueType type) { return typeRows[int(type)].name; }

std::optional<ValueType> valueTypeNamed(std::string_view name) {
  for (size_t t = 0; t < std::size(typeRows); ++t)
    if (name == typeRows[t].name)
      return static_cast<ValueType>(t);
  return std::nullopt;
}

bool isInteger(ValueType type) { return type <= ValueType::I64; }

bool isInteger(DType dtype) {
  return dtype == DType::I8 || dtype == DType::U8 || dtype == DType::I32 ||
         dtype == DType::I64;
}

bool canConvert(ValueType from, DType to) {
  bool fromFloat = from == ValueType::F16 || from == ValueType::F32 ||
                   from == ValueType::F64;
  bool toFloat = to == DType::F32 || to == DType::F64 || to == DType::BF16 ||
                 to == DType::F16;
  return !fromFloat || toFloat;
}

std::optional<BadValue> convertValues(ValueType from, const std::byte *source,
                                      int64_t count, DType to,
                                      const IndexRange &range,
                                      std::byte *result) {
  return visitSource(from, [&](auto s) -> std::optional<BadValue> {
    using S = decltype(s);
    int64_t bad = visitTarget(to, [&](auto t) {
      return convertAll<S, decltype(t)>(source, count, range, result);
    });
    if (bad == count)
      return std::nullopt;
    S raw;
    std::memcpy(&raw, source + bad * sizeof(S), sizeof(S));
    return BadValue{bad, fmt::format("{}", arithmetic(raw))};
  });
}

} // namespace polyrank
