// The two 16-bit float formats: exact conversion to f32, and conversion from it
// with rounding to nearest even. These are the bits that kernels compute on
// every machine. A NaN keeps its sign and the upper digits of its payload.

#pragma once

#include <cstdint>

namespace polyrank {

// Always inlined: files that are compiled for several sets of instructions use
// them (runtime/device/cpu/NarrowRows.cpp), and a function of its own might be
// linked with instructions that the machine lacks.

[[gnu::always_inline]] inline float floatFromBFloat16(uint16_t bits) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16);
}

[[gnu::always_inline]] inline uint16_t bfloat16FromFloat(float value) {
  uint32_t bits = __builtin_bit_cast(uint32_t, value);
  if ((bits & 0x7fffffff) > 0x7f800000) // NaN: stays NaN, and quiet
    return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

[[gnu::always_inline]] inline float floatFromFloat16(uint16_t bits) {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  uint32_t exponent = bits >> 10 & 0x1f, mantissa = bits & 0x3ff;
  if (exponent == 0x1f) // infinity or NaN, which becomes quiet
    return __builtin_bit_cast(float, sign | 0x7f800000 | mantissa << 13 |
                                         (mantissa != 0 ? 0x400000 : 0));
  if (exponent != 0)
    return __builtin_bit_cast(float,
                              sign | (exponent + 112) << 23 | mantissa << 13);
  float magnitude = static_cast<float>(mantissa) * 0x1p-24f; // denormal, zero
  return __builtin_bit_cast(float,
                            sign | __builtin_bit_cast(uint32_t, magnitude));
}

[[gnu::always_inline]] inline uint16_t float16FromFloat(float value) {
  uint32_t bits = __builtin_bit_cast(uint32_t, value);
  uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  bits &= 0x7fffffff;
  if (bits > 0x7f800000) // NaN: stays NaN, and quiet
    return sign | 0x7e00 | static_cast<uint16_t>(bits >> 13 & 0x3ff);
  if (bits >= 0x477ff000) // rounds to 65536 or more
    return sign | 0x7c00;
  if (bits < 0x38800000) { // below 2^-14: a multiple of 2^-24
    if (bits < 0x33000000)
      return sign;
    uint32_t mantissa = (bits & 0x7fffff) | 0x800000;
    int shift = 126 - static_cast<int>(bits >> 23);
    uint32_t whole = mantissa >> shift;
    uint32_t rest = mantissa & ((1u << shift) - 1), half = 1u << (shift - 1);
    return sign | static_cast<uint16_t>(
                      whole + (rest > half || (rest == half && (whole & 1))));
  }
  bits += 0xfff + (bits >> 13 & 1);
  return sign | static_cast<uint16_t>((bits - (112u << 23)) >> 13);
}

} // namespace polyrank
