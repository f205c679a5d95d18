// libgomp by its ABI: we are compiled by clang, whose -fopenmp would bring
// another library and a second team of threads.

#include "runtime/device/cpu/ThreadTeam.h"

#include <algorithm>
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

struct Work {
  int64_t range, grain, grains;
  void (*body)(void *, int64_t, int64_t);
  void *context;
};

void runPiece(void *data) {
  const Work &work = *static_cast<Work *>(data);
  int64_t thread = omp_get_thread_num(), threads = omp_get_num_threads();
  // grains * thread / threads without overflow of the product.
  auto bound = [&](int64_t t) {
    return work.grains / threads * t + work.grains % threads * t / threads;
  };
  int64_t begin = std::min(bound(thread) * work.grain, work.range);
  int64_t end = std::min(bound(thread + 1) * work.grain, work.range);
  if (begin < end)
    work.body(work.context, begin, end);
}

} // namespace

ThreadTeam::ThreadTeam(int threads, bool flushDenormals) : threads(threads) {
  const char *policy = std::getenv("OMP_WAIT_POLICY");
  bool sleeps = policy && std::string_view(policy) == "passive";
  worthwhile = sleeps ? 512 << 10 : 32 << 10;
  omp_set_dynamic(0);
  omp_set_num_threads(threads);
  void *enable = flushDenormals ? this : nullptr;
  setFlush(enable);
  GOMP_parallel(setFlush, enable, threads, 0);
}

void ThreadTeam::parallelFor(int64_t range, int64_t grain,
                             void (*body)(void *, int64_t, int64_t),
                             void *context) const {
  if (range <= 0)
    return;
  if (threads == 1 || range <= grain)
    return body(context, 0, range);
  Work work{range, grain, (range - 1) / grain + 1, body, context};
  GOMP_parallel(runPiece, &work, threads, 0);
}

void ThreadTeam::parallelFor(
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
