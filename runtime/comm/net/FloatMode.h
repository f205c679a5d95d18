// The floating-point mode of the thread in which a rank computes, for other
// threads that compute for it.

#pragma once

#include <cstdint>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

namespace polyrank::runtime::net {

/// The calling thread computes in a mode, as long as this lives.
class FloatMode {
public:
#ifdef __SSE__
  static uint32_t current() { return _mm_getcsr(); }
  explicit FloatMode(uint32_t mode) : before(_mm_getcsr()) { _mm_setcsr(mode); }
  ~FloatMode() { _mm_setcsr(before); }

private:
  uint32_t before;
#else
  static uint32_t current() { return 0; }
  explicit FloatMode(uint32_t) {}
#endif
};

} // namespace polyrank::runtime::net
