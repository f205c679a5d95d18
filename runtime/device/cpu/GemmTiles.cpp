// The division of GEMMs into tasks, and the threads that run them.

#include "runtime/device/cpu/GemmTiles.h"

#include <algorithm>

extern "C" {
void GOMP_parallel(void (*body)(void *), void *data, unsigned threads,
                   unsigned flags);
int omp_get_thread_num();
int omp_get_max_threads();
void omp_set_num_threads(int threads);
}

namespace polyrank::runtime {
namespace {

/// Tiles begin at multiples of this number.
constexpr int64_t tileAlign = 16;

} // namespace

OneThread::OneThread() : before(omp_get_max_threads()) {
  if (before != 1)
    omp_set_num_threads(1);
}

OneThread::~OneThread() {
  if (before != 1)
    omp_set_num_threads(before);
}

int64_t productsOf(const GemmShape &shape) {
  int64_t products = 1;
  for (const GemmBatchDim &dim : shape.batch)
    products *= dim.count;
  return products;
}

int64_t piecesOf(const GemmShape &shape) {
  constexpr int64_t worthCutting = 1 << 20, maxPieces = 16, minWidth = 192;
  int64_t products = productsOf(shape), side = std::max(shape.m, shape.n);
  if (shape.m * shape.n * shape.k < worthCutting || products >= maxPieces ||
      side < 2 * tileAlign)
    return 1;
  int64_t pieces = 2;
  while (pieces * products < maxPieces && side >= 2 * pieces * minWidth)
    pieces *= 2;
  return pieces;
}

Tiling::Tiling(const GemmShape &shape)
    : products(productsOf(shape)), tileM(shape.m), tileN(shape.n) {
  int64_t pieces = shape.pieces ? shape.pieces : piecesOf(shape);
  int64_t &side = shape.n >= shape.m ? tileN : tileM;
  side = ((side + pieces - 1) / pieces + tileAlign - 1) / tileAlign * tileAlign;
  tileM = std::min(tileM, shape.m), tileN = std::min(tileN, shape.n);
  countM = (shape.m + tileM - 1) / tileM,
  countN = (shape.n + tileN - 1) / tileN;
}

bool runTasks(int threads, int64_t tasks,
              const std::function<bool(int64_t task, int64_t thread)> &run) {
  struct Call {
    const std::function<bool(int64_t, int64_t)> &run;
    int64_t tasks;
    std::atomic<int64_t> next = 0;
    std::atomic<bool> works = true;

    void work(int64_t thread) {
      for (int64_t task;
           (task = next.fetch_add(1, std::memory_order_relaxed)) < tasks;)
        if (!run(task, thread))
          works = false;
    }
  } call{run, tasks};
  if (threads > 1) {
    // Called inside an OpenMP team, oneDNN uses one thread.
    GOMP_parallel(
        [](void *data) {
          static_cast<Call *>(data)->work(omp_get_thread_num());
        },
        &call, threads, 0);
  } else {
    OneThread scope;
    call.work(0);
  }
  return call.works;
}

} // namespace polyrank::runtime
