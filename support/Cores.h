// The cores of this machine, and how many threads are reasonable for them.

#pragma once

#include <cstdint>
#include <sched.h>

namespace polyrank {

/// The number of cores that this process may use.
inline int usableCores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof(cores), &cores) != 0)
    return 1;
  return CPU_COUNT(&cores);
}

/// Oversubscription of the cores. Several ranks per core are slow but a way to
/// try out a mesh (Usual, no message); from some number on they deserve a
/// warning (Slow), and beyond that they cannot be intended (Senseless).
enum class Crowd { Usual, Slow, Senseless };

inline Crowd crowdOf(int64_t ranks, int64_t threads) {
  int64_t cores = usableCores();
  constexpr int64_t slow = 8, senseless = 256; // threads per core
  if (ranks > senseless * cores / threads)
    return Crowd::Senseless;
  return ranks > slow * cores / threads ? Crowd::Slow : Crowd::Usual;
}

} // namespace polyrank
