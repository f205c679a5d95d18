// Rows of bf16 and f16 in vectors: loops that the compiler maps to the
// registers that POLYRANK_NARROW_ROWS's instructions have, and the instructions
// for f16 where the machine has them. As in AttentionRows.cpp, every function
// is local to this file.

#include "runtime/device/cpu/NarrowRows.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace {

#define INLINE [[gnu::always_inline]] inline

INLINE uint32_t bitsOf(float value) {
  return __builtin_bit_cast(uint32_t, value);
}
INLINE float floatOf(uint32_t bits) { return __builtin_bit_cast(float, bits); }

void widenBFloat16(const uint16_t *from, float *to, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    to[i] = floatOf(static_cast<uint32_t>(from[i]) << 16);
}

void roundBFloat16(const float *from, uint16_t *to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits = bitsOf(from[i]);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    uint32_t quiet = bits >> 16 | 0x40; // of a NaN
    to[i] = static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? quiet
                                                                   : rounded);
  }
}

/// One element, without arithmetic of floats on denormal numbers, which threads
/// may take for zero.
INLINE float widened(uint16_t bits) {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  uint32_t exponent = bits >> 10 & 0x1f, mantissa = bits & 0x3ff;
  float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  uint32_t small = bitsOf(magnitude);
  uint32_t normal = (exponent + 112) << 23 | mantissa << 13;
  // Infinity or NaN, which becomes quiet.
  uint32_t special =
      0x7f800000 | mantissa << 13 | (mantissa != 0 ? 0x400000 : 0);
  return floatOf(sign | (exponent == 0      ? small
                         : exponent == 0x1f ? special
                                            : normal));
}

INLINE uint16_t rounded(float value) {
  uint32_t bits = bitsOf(value);
  uint32_t sign = bits >> 16 & 0x8000;
  bits &= 0x7fffffff;
  if (bits > 0x7f800000)
    return static_cast<uint16_t>(sign | 0x7e00 | (bits >> 13 & 0x3ff));
  if (bits >= 0x477ff000) // rounds to 65536 or more
    return static_cast<uint16_t>(sign | 0x7c00);
  if (bits < 0x33000000) // rounds to 0
    return static_cast<uint16_t>(sign);
  if (bits < 0x38800000) { // below 2^-14: a multiple of 2^-24
    uint32_t mantissa = (bits & 0x7fffff) | 0x800000;
    uint32_t shift = 126 - (bits >> 23);
    uint32_t whole = mantissa >> shift;
    uint32_t rest = mantissa & ((1u << shift) - 1), half = 1u << (shift - 1);
    return static_cast<uint16_t>(
        sign | (whole + (rest > half || (rest == half && (whole & 1)))));
  }
  bits += 0xfff + (bits >> 13 & 1);
  return static_cast<uint16_t>(sign | (bits - (112u << 23)) >> 13);
}

void widenFloat16(const uint16_t *from, float *to, int64_t count) {
  int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= count; i += 16)
    _mm512_storeu_ps(to + i, _mm512_cvtph_ps(_mm256_loadu_si256(
                                 reinterpret_cast<const __m256i *>(from + i))));
#elif defined(__F16C__)
  for (; i + 8 <= count; i += 8)
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(
                                 reinterpret_cast<const __m128i *>(from + i))));
#endif
  for (; i < count; ++i)
    to[i] = widened(from[i]);
}

void roundFloat16(const float *from, uint16_t *to, int64_t count) {
  int64_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= count; i += 8) {
    __m256 value = _mm256_loadu_ps(from + i);
    _mm_storeu_si128(
        reinterpret_cast<__m128i *>(to + i),
        _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
#endif
  for (; i < count; ++i)
    to[i] = rounded(from[i]);
}

} // namespace

namespace polyrank::runtime {

const NarrowRows POLYRANK_NARROW_ROWS{widenBFloat16, widenFloat16,
                                      roundBFloat16, roundFloat16};

} // namespace polyrank::runtime
