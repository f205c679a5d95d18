// The meaning of a device's addresses. Only devices, and communicators that
// move their memory, may include this: test/tools/includes.test lists them.

#pragma once

#include "runtime/device/DeviceMemory.h"

namespace polyrank::runtime {

struct DeviceAccess {
  /// An address in the device's own numbering, for any kind of device.
  static DeviceAddress addressOf(uint64_t value) {
    return DeviceAddress(value);
  }
  static uint64_t valueOf(DeviceAddress address) { return address.value; }

  /// The address of memory on a device whose memory this process can access.
  static DeviceAddress addressOf(const std::byte *memory) {
    return DeviceAddress(reinterpret_cast<uintptr_t>(memory));
  }
  static std::byte *pointerTo(DeviceAddress address) {
    return reinterpret_cast<std::byte *>(address.value);
  }
  static std::span<std::byte> bytesOf(DeviceSpan memory) {
    return {pointerTo(memory.address), memory.size};
  }
  static DeviceSpan spanOf(std::span<std::byte> memory) {
    return {addressOf(memory.data()), memory.size()};
  }

  /// The descriptor by which other processes map shared memory; -1 for memory
  /// that is private or empty.
  static int descriptorOf(const DeviceMemory &memory) {
    return memory.exported.get();
  }
};

} // namespace polyrank::runtime
