// Busy-waiting for a short time, without yielding the core.

#pragma once

#include "runtime/comm/shm/ControlPage.h"

namespace polyrank::runtime::shm {

inline void pauseProcessor() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Polls until isOver(), at most until `nanoseconds` after `begin` (of
/// monotonicNanoseconds). Returns whether it was over. With 0 it does not poll.
template <typename Condition>
bool spinUntil(int64_t begin, int64_t nanoseconds, const Condition &isOver) {
  if (nanoseconds == 0)
    return false;
  do {
    for (int n = 0; n < 32; ++n) {
      if (isOver())
        return true;
      pauseProcessor();
    }
  } while (monotonicNanoseconds() - begin < nanoseconds);
  return false;
}

} // namespace polyrank::runtime::shm
