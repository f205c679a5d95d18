// Calls libgomp by its ABI: clang's -fopenmp would bring another library and a
// second team of threads.

#include "runtime/host/HostTeam.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string_view>
#include <xmmintrin.h>

extern "C" {
void GOMP_parallel(void (*body)(void *), void *data, unsigned threads,
                   unsigned flags);
int omp_get_thread_num();
int omp_get_num_threads();
void omp_set_num_threads(int threads);
void omp_set_dynamic(int dynamic);
}

namespace polyrank::runtime {
namespace {

constexpr unsigned flushToZero = 1u << 15, denormalsAreZero = 1u << 6;

void setFlush(void *enable) {
  unsigned control = _mm_getcsr() & ~(flushToZero | denormalsAreZero);
  _mm_setcsr(enable ? control | flushToZero | denormalsAreZero : control);
}

/// A range that is cut into pieces of size `piece`, a multiple of the grain.
struct Work {
  int64_t range, piece;
  void (*body)(void *, int64_t, int64_t);
  void *context;
  std::atomic<int64_t> next = 0;
};

/// Pieces are taken dynamically, so a thread that is slowed down takes fewer.
void runPieces(void *data) {
  Work &work = *static_cast<Work *>(data);
  while (true) {
    int64_t begin = work.next.fetch_add(work.piece, std::memory_order_relaxed);
    if (begin >= work.range)
      return;
    work.body(work.context, begin,
              begin + std::min(work.piece, work.range - begin));
  }
}

} // namespace

HostTeam::HostTeam(int threads, bool flushDenormals) : threads(threads) {
  const char *policy = std::getenv("OMP_WAIT_POLICY");
  bool sleeps = policy && std::string_view(policy) == "passive";
  worthwhile = sleeps ? 512 << 10 : 32 << 10;
  omp_set_dynamic(0);
  omp_set_num_threads(threads);
  void *enable = flushDenormals ? this : nullptr;
  setFlush(enable);
  GOMP_parallel(setFlush, enable, threads, 0);
}

void HostTeam::parallelFor(int64_t range, int64_t grain,
                           void (*body)(void *, int64_t, int64_t),
                           void *context) const {
  if (range <= 0)
    return;
  if (threads == 1 || range <= grain)
    return body(context, 0, range);
  // A few pieces per thread, so that all threads end at about the same time.
  constexpr int64_t piecesPerThread = 4;
  int64_t grains = (range - 1) / grain + 1;
  int64_t piece = (grains - 1) / (piecesPerThread * threads) + 1;
  Work work{range, piece * grain, body, context};
  GOMP_parallel(runPieces, &work, threads, 0);
}

void HostTeam::parallelFor(
    int64_t range, int64_t grain,
    const std::function<void(int64_t, int64_t)> &body) const {
  parallelFor(
      range, grain,
      [](void *context, int64_t begin, int64_t end) {
        (*static_cast<const std::function<void(int64_t, int64_t)> *>(context))(
            begin, end);
      },
      const_cast<std::function<void(int64_t, int64_t)> *>(&body));
}

} // namespace polyrank::runtime
