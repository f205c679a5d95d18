// Memory that is followed by an unmapped page: a read past the end crashes,
// with or without the sanitizer.

#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <sys/mman.h>

namespace polyrank::runtime::test {

class GuardedMemory {
public:
  explicit GuardedMemory(size_t capacity)
      : capacity((capacity + page - 1) / page * page) {
    void *mapped = mmap(nullptr, this->capacity + page, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
      throw std::runtime_error("mmap");
    memory = static_cast<uint8_t *>(mapped);
    if (mprotect(memory + this->capacity, page, PROT_NONE) != 0)
      throw std::runtime_error("mprotect");
  }
  GuardedMemory(const GuardedMemory &) = delete;
  ~GuardedMemory() { munmap(memory, capacity + page); }

  /// Copies the bytes to the end of this memory. Valid until the next call.
  std::span<uint8_t> copyOf(std::span<const uint8_t> bytes) {
    uint8_t *begin = memory + capacity - bytes.size();
    std::copy(bytes.begin(), bytes.end(), begin);
    return {begin, bytes.size()};
  }

private:
  static constexpr size_t page = 4096;
  size_t capacity;
  uint8_t *memory;
};

} // namespace polyrank::runtime::test
