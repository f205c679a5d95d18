// The rank's threads of the host, whatever device it computes on: the OpenMP
// team that oneDNN uses too.

#pragma once

#include <cstdint>
#include <functional>

namespace polyrank::runtime {

/// Copies, conversions and sums of the host run on it, and on a CPU the plan's
/// kernels: they and oneDNN share libgomp's team, one per process, so that the
/// cores are never oversubscribed. How idle threads wait is libgomp's
/// policy, which it reads from the environment when it is loaded: the launcher
/// sets it before it starts the rank (runtime/launch/Launcher.cpp).
class HostTeam {
public:
  /// Sets the team's size, and flush-to-zero on each thread if requested.
  /// Threads that libgomp creates later inherit it from their creator.
  HostTeam(int threads, bool flushDenormals);

  int size() const { return threads; }

  /// The number of bytes or operations below which a second thread costs more
  /// than it gains: waking it takes 1 us if it spins and 60 us if it sleeps.
  uint64_t worthwhileWork() const { return worthwhile; }

  /// Runs body(begin, end) over [0, range) in a few contiguous pieces per
  /// thread, whose bounds are multiples of `grain`.
  void parallelFor(int64_t range, int64_t grain,
                   const std::function<void(int64_t, int64_t)> &body) const;

  /// The same without an allocation; `context` is passed to `body`.
  void parallelFor(int64_t range, int64_t grain,
                   void (*body)(void *, int64_t, int64_t), void *context) const;

private:
  int threads;
  uint64_t worthwhile;
};

} // namespace polyrank::runtime
