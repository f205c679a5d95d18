// A sum over all ranks, and flags that ranks share outside the communicator.

#pragma once

#include "test/runtime/comm/CommunicatorCases.h"

#include <atomic>
#include <sys/mman.h>
#include <unistd.h>

namespace polyrank::runtime::test {

/// A sum over all ranks of `elements` elements at byte 64; the result follows
/// them.
struct Sum {
  Sum(Communicator &communicator, int64_t elements, uint64_t id = 5) {
    transfer = rows(1, elements);
    transfer.input = 64;
    transfer.output = 64 + (elements * 4 + 63) / 64 * 64;
    collective.reduction = Reduction::Sum;
    collective.group = *communicator.createGroup(allRanks(communicator));
    collective.transfers = {&transfer, 1};
    collective.id = id;
    input = reinterpret_cast<float *>(memoryOf(communicator) + 64);
    output =
        reinterpret_cast<float *>(memoryOf(communicator) + transfer.output);
  }
  Transfer transfer;
  Collective collective;
  float *input, *output;
};

/// Shared words by which the forked ranks communicate outside the communicator.
struct Flags {
  Flags()
      : words(static_cast<std::atomic<int> *>(
            mmap(nullptr, size, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~Flags() { munmap(words, size); }
  Flags(const Flags &) = delete;

  void await(int word, int value) const {
    while (words[word].load() < value)
      usleep(100);
  }

  static constexpr size_t size = 4096;
  std::atomic<int> *words;
};

} // namespace polyrank::runtime::test
