// Rows of bf16 and f16 in vectors: loops that the compiler maps to the
// registers that POLYRANK_NARROW_ROWS's instructions have, and the instructions
// for f16 where the machine has them. As in AttentionRows.cpp, every function
// is local to this file, or always inlined.

#include "runtime/device/cpu/NarrowRows.h"

#include "support/Float16.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace {

void widenBFloat16(const uint16_t *from, float *to, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    to[i] = polyrank::floatFromBFloat16(from[i]);
}

void roundBFloat16(const float *from, uint16_t *to, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    to[i] = polyrank::bfloat16FromFloat(from[i]);
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
    to[i] = polyrank::floatFromFloat16(from[i]);
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
    to[i] = polyrank::float16FromFloat(from[i]);
}

} // namespace

namespace polyrank::runtime {

const NarrowRows POLYRANK_NARROW_ROWS{widenBFloat16, widenFloat16,
                                      roundBFloat16, roundFloat16};

} // namespace polyrank::runtime
