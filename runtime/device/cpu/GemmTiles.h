// The division of GEMMs into tasks, and the threads that run them.

#pragma once

#include "runtime/device/cpu/GemmShape.h"

#include <atomic>
#include <cstdint>
#include <functional>

namespace polyrank::runtime {

/// Sets OpenMP's number of threads to 1 in a scope. oneDNN takes its number of
/// threads from OpenMP, when it creates a primitive and when it runs sgemm.
class OneThread {
public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread &) = delete;

private:
  int before;
};

/// The number of GEMMs in the batch.
int64_t productsOf(const GemmShape &shape);

/// The number of pieces that keeps a team busy. If there are more than two,
/// none is narrower than 192.
int64_t piecesOf(const GemmShape &shape);

/// The number of multiply-adds from which a GEMM gains from more than one
/// thread.
inline constexpr int64_t worthATeam = 1 << 16;

/// The division of a batched GEMM into tasks: each task is one tile of one
/// product of the batch, computed by one thread. The cut never depends on the
/// number of threads, because oneDNN's own partition changes the order of sums
/// (matrix times vector, transposed A with a long k).
struct Tiling {
  explicit Tiling(const GemmShape &shape);

  int64_t tasks() const { return products * countM * countN; }

  int64_t products;
  int64_t tileM, tileN;   // the last tile of a side may be smaller
  int64_t countM, countN; // one of them is 1
};

/// Calls run(task, thread) for each task, on a team of `threads`. A thread that
/// is slowed down by others takes fewer tasks. Returns whether all were
/// successful.
bool runTasks(int threads, int64_t tasks,
              const std::function<bool(int64_t task, int64_t thread)> &run);

} // namespace polyrank::runtime
