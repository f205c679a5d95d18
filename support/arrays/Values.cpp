// Conversion between element types, with one loop per pair of types.

#include "support/arrays/Values.h"

#include "support/ElementValues.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <type_traits>
#include <utility>

namespace polyrank {
namespace {

/// The digits of the significand of a stored float type.
template <typename T>
constexpr int digitsOf = std::numeric_limits<T>::digits;
template <>
constexpr int digitsOf<Float16> = rowOf(ElementType::F16).digits;
template <>
constexpr int digitsOf<BFloat16> = rowOf(ElementType::BF16).digits;

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
    to.byte = value != 0;
    return value == 0 || value == 1;
  } else {
    if constexpr (std::is_integral_v<S>) {
      constexpr int64_t limit = int64_t(1) << digitsOf<T>;
      if (std::cmp_greater(value, limit) || std::cmp_less(value, -limit))
        return false;
    }
    to = static_cast<T>(static_cast<Arithmetic<T>>(value));
    if constexpr (std::is_floating_point_v<S> && !std::is_same_v<T, double>)
      return !std::isinf(static_cast<float>(to)) || std::isinf(value);
    return true;
  }
}

/// Converts up to the first value that does not fit, and returns its index.
template <typename S, typename T>
int64_t convertAll(const std::byte *source, int64_t count,
                   const IndexRange &range, std::byte *result) {
  for (int64_t n = 0; n < count; ++n) {
    T converted;
    Arithmetic<S> value = loadElement<S>(source + n * sizeof(S));
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
    Bits bits = loadElement<Bits>(data + i * sizeof(Bits));
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
int64_t findInfinity(ElementType dtype, const std::byte *data, int64_t count,
                     bool beyond) {
  const ElementTypeRow &row = rowOf(dtype);
  if (row.kind != ElementKind::Float)
    return count;
  // All bits of the exponent are set, and none of the significand.
  uint64_t exponent = (uint64_t(1) << (row.bits - row.digits)) - 1,
           infinity = exponent << (row.digits - 1);
  switch (row.bits) {
  case 64:
    return findAtLeast<uint64_t>(data, count, infinity + beyond);
  case 32:
    return findAtLeast<uint32_t>(data, count, infinity + beyond);
  default:
    return findAtLeast<uint16_t>(data, count, infinity + beyond);
  }
}

} // namespace

int64_t findNan(ElementType dtype, const std::byte *data, int64_t count) {
  return findInfinity(dtype, data, count, true);
}

bool areFinite(ElementType dtype, const std::byte *data, int64_t count) {
  return findInfinity(dtype, data, count, false) == count;
}

bool areWithin(ElementType to, ElementType dtype, const std::byte *data,
               int64_t count) {
  return visitElements(dtype, [&]<typename T>(T) {
    if constexpr (std::is_floating_point_v<Arithmetic<T>>) {
      // Half a unit in the last place beyond the largest value, from where on
      // numbers round to infinity.
      double beyond =
          largestOf(to) * (1 + std::ldexp(1, -rowOf(to).digits - 1));
      for (int64_t i = 0; i < count; ++i) {
        double value = loadElement<T>(data + i * sizeof(T));
        if (std::isfinite(value) && std::abs(value) >= beyond)
          return false;
      }
    }
    return true;
  });
}

bool canConvert(ElementType from, ElementType to) {
  return !isFloat(from) || isFloat(to);
}

std::optional<BadValue> convertValues(ElementType from, const std::byte *source,
                                      int64_t count, ElementType to,
                                      const IndexRange &range,
                                      std::byte *result) {
  return visitElements(from, [&](auto s) -> std::optional<BadValue> {
    using S = decltype(s);
    int64_t bad = visitElements(to, [&](auto t) {
      return convertAll<S, decltype(t)>(source, count, range, result);
    });
    if (bad == count)
      return std::nullopt;
    Arithmetic<S> value = loadElement<S>(source + bad * sizeof(S));
    return BadValue{bad, fmt::format("{}", value)};
  });
}

} // namespace polyrank
