// The rank's threads: the OpenMP team that oneDNN uses too.

#pragma once

#include <cstdint>
#include <functional>

namespace polyrank::runtime {

/// One per process. Our kernels and oneDNN's share libgomp's team, so that the
/// cores are never claimed twice. How idle threads wait is libgomp's policy,
/// read from the environment when it is loaded: the launcher sets it before it
/// starts the rank (runtime/launch/Launcher.cpp).
class ThreadTeam {
public:
  /// Makes `threads` the team's size and sets flush-to-zero on each thread if
  /// asked. Threads that libgomp makes later inherit it from their maker.
  ThreadTeam(int threads, bool flushDenormals);

  int size() const { return threads; }

  /// Below so many bytes and operations a second thread costs more than it
  /// gains: waking it takes 1 us where it spins and 60 us where it sleeps.
  uint64_t worthwhileWork() const { return worthwhile; }

  /// Runs body(begin, end) over [0, range) in one contiguous piece per thread,
  /// with bounds that are multiples of `grain`.
  void parallelFor(int64_t range, int64_t grain,
                   const std::function<void(int64_t, int64_t)> &body) const;

  /// The same without an allocation; `context` is handed to `body`.
  void parallelFor(int64_t range, int64_t grain,
                   void (*body)(void *, int64_t, int64_t), void *context) const;

private:
  int threads;
  uint64_t worthwhile;
};

} // namespace polyrank::runtime
