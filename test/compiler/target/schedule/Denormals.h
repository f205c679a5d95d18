// How this CPU treats denormal floats.

#pragma once

#include <xmmintrin.h>

namespace polyrank::target {

/// While it lives, denormal operands and results are zeros of the same sign if
/// `flushes`, and denormal if not.
class Denormals {
public:
  explicit Denormals(bool flushes) : before(_mm_getcsr()) {
    constexpr unsigned both = 0x8040; // FTZ and DAZ
    _mm_setcsr(flushes ? before | both : before & ~both);
  }
  ~Denormals() { _mm_setcsr(before); }
  Denormals(const Denormals &) = delete;

private:
  unsigned before;
};

} // namespace polyrank::target
