// A device's memory as all code above the device sees it: opaque addresses that
// can be passed on, but not dereferenced.

#pragma once

#include "support/File.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>

namespace polyrank::runtime {

/// An address in a device's memory: one of this process on the CPU, one of the
/// device elsewhere. Only devices, and communicators that move their memory,
/// can interpret it (runtime/device/DeviceAccess.h); all other code reads and
/// writes the memory through the device.
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

/// `size` bytes from `address` on.
struct DeviceSpan {
  DeviceAddress address;
  uint64_t size = 0;

  DeviceSpan part(uint64_t offset, uint64_t bytes) const {
    return {address + offset, bytes};
  }
};

/// The least alignment of an arena's regions: what GPUs need for vector loads.
/// Offsets within a region are multiples of the target's own alignment.
inline constexpr uint64_t arenaAlignment = 256;

/// Memory that a device allocates is reached by this rank alone, or also by its
/// peers, once a communicator has registered it.
enum class Sharing : uint8_t { Private, Peers };

/// Owns memory that a device has allocated. The device outlives it.
class DeviceMemory {
public:
  using Release = std::function<void(DeviceSpan)>;

  DeviceMemory() = default;
  /// `exported` is what other processes map to reach the memory, if it is
  /// shared: a memfd on the CPU, a shareable handle of CUDA.
  DeviceMemory(DeviceSpan memory, Release release,
               Descriptor exported = Descriptor())
      : memory(memory), release(std::move(release)),
        exported(std::move(exported)) {}
  DeviceMemory(DeviceMemory &&other) noexcept
      : memory(std::exchange(other.memory, {})),
        release(std::move(other.release)), exported(std::move(other.exported)) {
  }
  DeviceMemory &operator=(DeviceMemory &&) = delete;
  ~DeviceMemory() {
    if (memory.address)
      release(memory);
  }

  DeviceSpan span() const { return memory; }

private:
  friend struct DeviceAccess;
  DeviceSpan memory;
  Release release;
  Descriptor exported;
};

/// A device's memory as the host reads it, with the contents at the time of the
/// request. If the host can access the memory this is the memory itself, valid
/// until something is enqueued that writes to it; otherwise it is a copy.
class Downloaded {
public:
  /// Refers to the memory itself.
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
