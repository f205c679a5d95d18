// Waiting for a word in memory that several processes share.

#pragma once

#include <atomic>
#include <cstdint>

namespace polyrank {

// Atomics in shared memory are lock-free, hence address-free.
static_assert(std::atomic<uint64_t>::is_always_lock_free &&
              std::atomic<uint32_t>::is_always_lock_free);

/// Nanoseconds of CLOCK_MONOTONIC.
int64_t monotonicNanoseconds();

/// Sleeps while the word has this value, at most until a wake or for 100 ms.
void sleepWhile(std::atomic<uint32_t> &word, uint32_t value);
/// Wakes the threads of all processes that sleep on the word.
void wakeAll(std::atomic<uint32_t> &word);

inline void pauseProcessor() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Polls until isOver(), at most until `nanoseconds` after `begin` (of
/// monotonicNanoseconds), without yielding the core. Returns whether it was
/// over. With 0 it does not poll.
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

} // namespace polyrank
