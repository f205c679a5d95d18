// How products are cut into tasks, and who computes these.

#pragma once

#include "runtime/plan/GemmShape.h"

#include <atomic>
#include <cstdint>
#include <functional>

namespace polyrank::runtime {

/// oneDNN takes the number of threads from OpenMP, when it makes a primitive
/// and when it runs sgemm.
class OneThread {
public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread &) = delete;

private:
  int before;
};

/// Products of the batch.
int64_t productsOf(const GemmShape &shape);

/// As many as keep a team busy, none narrower than 192 where there are more
/// than two.
int64_t piecesOf(const GemmShape &shape);

/// Multiply-adds from which a product is worth more threads than one.
inline constexpr int64_t worthATeam = 1 << 16;

/// How the products of a batch are cut into tasks: each task is one tile of one
/// product, computed by one thread. The cut never depends on the number of
/// threads, because oneDNN's own partition changes the order of sums (matrix
/// times vector, transposed A with a long k).
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
