// The private region of a rank's arena.

#pragma once

#include "runtime/Result.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace polyrank::runtime {

/// Anonymous memory with huge pages, zeros at first. Its pages are there once
/// they are touched; a plan's size is never exceeded.
class PrivateRegion {
public:
  static Result<PrivateRegion> allocate(uint64_t size);
  PrivateRegion(PrivateRegion &&other) noexcept;
  PrivateRegion &operator=(PrivateRegion &&) = delete;
  ~PrivateRegion();

  std::span<std::byte> memory() const { return bytes; }

private:
  explicit PrivateRegion(std::span<std::byte> bytes) : bytes(bytes) {}
  std::span<std::byte> bytes;
};

/// The most memory that this process ever had resident, and what it has in
/// pages that it shares with no file or memfd, in bytes.
struct ResidentMemory {
  uint64_t peak = 0, anonymous = 0;
};
ResidentMemory residentMemory();

} // namespace polyrank::runtime
