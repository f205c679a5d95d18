// Runs the threads of a GPU kernel's twin as fibers, in a random order.

#pragma once

#include <functional>
#include <random>

#include "test/compiler/target/cuda/TwinMemory.h"

namespace polyrank::twin {

/// How lanes of a warp exchange values.
enum class Exchange {
  ShuffleUp,
  ShuffleDown,
  ShuffleButterfly,
  ShuffleIndex,
  Ballot,
  Any,
  All,
  MatchAny,
  WarpBarrier
};

/// A grid of blocks of threads. Blocks run one after another in random order.
/// In a block a warp is drawn, and its lanes run, in random order, until each
/// waits for others or has ended; then the next warp is drawn.
class Machine {
public:
  Machine(Memory &memory, int64_t blocks, int threads, uint64_t seed);
  ~Machine();
  Machine(const Machine &) = delete;

  /// Runs `thread` for each thread of the grid. Returns false if it had to
  /// stop: an access out of bounds, or threads that wait forever.
  bool run(const std::function<void()> &thread);

  // What a thread asks. `site` is the number of the instruction.
  static Machine &current();
  int getThread() const { return now.thread; }
  int64_t getBlock() const { return now.block; }
  int getNumThreads() const { return numThreads; }
  int64_t getNumBlocks() const { return numBlocks; }
  void access(void *address, unsigned size, unsigned alignment, bool isWrite,
              unsigned site);
  void barrier(uint32_t number, unsigned site);
  /// Waits for all lanes of the warp; `operand` and `form` are those of PTX's
  /// shfl.sync.
  uint32_t exchange(Exchange kind, uint32_t mask, uint32_t value,
                    uint32_t operand, uint32_t form, unsigned site);

private:
  enum class State : uint8_t { Ready, AtBarrier, AtExchange, Ended };
  struct Fiber {
    void *stackPointer = nullptr;
    State state = State::Ready;
    /// What the thread waits for.
    Exchange kind{};
    uint32_t mask = 0, value = 0, operand = 0, form = 0, result = 0;
    unsigned site = 0;
  };

  static void enter();
  void begin(int thread);
  void resume(int thread);
  void wait(State state);
  bool runBlock(int64_t block);
  bool runWarp(int warp);
  bool exchangeLanes(int warp);
  bool passBarrier();
  void report(const std::string &text);

  Memory &memory;
  int64_t numBlocks;
  int numThreads;
  std::mt19937_64 random;
  std::vector<Fiber> fibers;
  std::vector<int32_t> warpBarriers;
  Moment now;
  void *scheduler = nullptr;
  bool isStopped = false;
  const std::function<void()> *body = nullptr;
  char *stacks = nullptr;
  size_t stacksSize = 0;
};

} // namespace polyrank::twin
