// Memory of a device as everything above the device sees it: places that can be
// named and handed on, but not looked into.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>

namespace polyrank::runtime {

/// A place in a device's memory: an address of this process on the CPU, one of
/// the device elsewhere. Only devices, and transports that move their memory,
/// know what it stands for (runtime/device/DeviceAccess.h): for everybody else
/// there is no way to read or write there, but the device's.
class DeviceAddress {
public:
  constexpr DeviceAddress() = default;
  explicit operator bool() const { return value != 0; }
  DeviceAddress operator+(uint64_t bytes) const {
    return DeviceAddress(value + bytes);
  }
  bool operator==(const DeviceAddress &) const = default;

private:
  friend struct DeviceAccess;
  explicit constexpr DeviceAddress(uint64_t value) : value(value) {}
  uint64_t value = 0;
};

/// `size` bytes from there.
struct DeviceSpan {
  DeviceAddress address;
  uint64_t size = 0;

  DeviceSpan part(uint64_t offset, uint64_t bytes) const {
    return {address + offset, bytes};
  }
};

/// Where the regions of an arena begin, at least: what GPUs want of memory that
/// whole vectors are read from. Offsets in them are multiples of what the
/// target asked the compiler for.
inline constexpr uint64_t arenaAlignment = 256;

/// Memory that a device gave, until this ends. The device outlives it.
class DeviceMemory {
public:
  using Release = std::function<void(DeviceSpan)>;

  DeviceMemory() = default;
  DeviceMemory(DeviceSpan memory, Release release)
      : memory(memory), release(std::move(release)) {}
  DeviceMemory(DeviceMemory &&other) noexcept
      : memory(std::exchange(other.memory, {})),
        release(std::move(other.release)) {}
  DeviceMemory &operator=(DeviceMemory &&) = delete;
  ~DeviceMemory() {
    if (memory.address)
      release(memory);
  }

  DeviceSpan span() const { return memory; }

private:
  DeviceSpan memory;
  Release release;
};

/// What some memory of a device held when it was asked for, as the host reads
/// it: the memory itself where the host sees it, and then only until something
/// is enqueued that writes there; a copy elsewhere.
class Downloaded {
public:
  /// The memory itself.
  explicit Downloaded(std::span<const std::byte> memory) : view(memory) {}
  Downloaded(std::unique_ptr<std::byte[]> copied, size_t size)
      : copy(std::move(copied)), view(copy.get(), size) {}

  const std::byte *data() const { return view.data(); }
  std::span<const std::byte> bytes() const { return view; }

private:
  std::unique_ptr<std::byte[]> copy;
  std::span<const std::byte> view;
};

} // namespace polyrank::runtime
