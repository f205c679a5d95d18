// The private region of a rank's arena.

#pragma once

#include "runtime/device/Device.h"

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

/// Has the system find the memory's pages now, on all threads of the device: the
/// first touch is slow, and there may be too little. What it holds stays.
Result<void> touchMemory(std::span<std::byte> memory, Device &device);

/// The most memory that this process ever had resident; what it has in pages
/// that it shares with no file or memfd, and in memfds; in bytes.
struct ResidentMemory {
  uint64_t peak = 0, anonymous = 0, shared = 0;
};
ResidentMemory residentMemory();

} // namespace polyrank::runtime
