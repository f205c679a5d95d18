// The values of each element type in C++, and one way from a type at run time
// to code for it.

#pragma once

#include "support/ElementType.h"
#include "support/Float16.h"

#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace polyrank {

/// The stored forms of types that C++ lacks. They convert to the arithmetic
/// type that represents them exactly, and from it with rounding to nearest
/// even.
struct Float16 {
  uint16_t bits;
  Float16() = default;
  explicit Float16(float value) : bits(float16FromFloat(value)) {}
  operator float() const { return floatFromFloat16(bits); }
};
struct BFloat16 {
  uint16_t bits;
  BFloat16() = default;
  explicit BFloat16(float value) : bits(bfloat16FromFloat(value)) {}
  operator float() const { return floatFromBFloat16(bits); }
};
/// Any byte but 0 is true.
struct Boolean {
  uint8_t byte;
  Boolean() = default;
  explicit Boolean(uint8_t value) : byte(value != 0) {}
  operator uint8_t() const { return byte != 0; }
};

/// The arithmetic type that represents each value of the stored type T.
template <typename T>
struct ArithmeticOf {
  using type = T;
};
template <>
struct ArithmeticOf<Float16> {
  using type = float;
};
template <>
struct ArithmeticOf<BFloat16> {
  using type = float;
};
template <>
struct ArithmeticOf<Boolean> {
  using type = uint8_t;
};
template <typename T>
using Arithmetic = typename ArithmeticOf<T>::type;

/// Returns true if `visitElements` has values for the type.
constexpr bool hasValues(ElementType type) {
  return isFloat(type) || isInteger(type) || type == ElementType::BOOL;
}

/// Calls `visitor` with a value of the stored type that the elements have, and
/// returns what it returns. Requires hasValues(type).
template <typename Visitor>
decltype(auto) visitElements(ElementType type, Visitor &&visitor) {
  switch (type) {
  case ElementType::F32:
    return visitor(float());
  case ElementType::F64:
    return visitor(double());
  case ElementType::F16:
    return visitor(Float16());
  case ElementType::BF16:
    return visitor(BFloat16());
  case ElementType::I8:
    return visitor(int8_t());
  case ElementType::I16:
    return visitor(int16_t());
  case ElementType::I32:
    return visitor(int32_t());
  case ElementType::I64:
    return visitor(int64_t());
  case ElementType::U8:
    return visitor(uint8_t());
  case ElementType::U16:
    return visitor(uint16_t());
  case ElementType::U32:
    return visitor(uint32_t());
  case ElementType::U64:
    return visitor(uint64_t());
  case ElementType::BOOL:
    return visitor(Boolean());
  default:
    std::abort();
  }
}

/// The stored value at `at`, which need not be aligned.
template <typename T>
T loadElement(const void *at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

} // namespace polyrank
