// The cores of this machine, and how many threads can be meant for them.

#pragma once

#include <cstdint>
#include <sched.h>

namespace polyrank {

/// That this process may use.
inline int usableCores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof(cores), &cores) != 0)
    return 1;
  return CPU_COUNT(&cores);
}

/// Ranks that take turns on a core are slow, but how a mesh is tried out; from
/// some number on they are worth a word, and then nobody's intention.
enum class Crowd { Usual, Slow, Senseless };

inline Crowd crowdOf(int64_t ranks, int64_t threads) {
  int64_t cores = usableCores();
  constexpr int64_t slow = 8, senseless = 256; // threads on each core
  if (ranks > senseless * cores / threads)
    return Crowd::Senseless;
  return ranks > slow * cores / threads ? Crowd::Slow : Crowd::Usual;
}

} // namespace polyrank
