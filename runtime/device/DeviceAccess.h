// What a device's addresses stand for. For devices and the transports that move
// their memory alone: test/tools/includes.test lists who may see this.

#pragma once

#include "runtime/device/DeviceMemory.h"

namespace polyrank::runtime {

struct DeviceAccess {
  /// An address as the device counts: of any kind.
  static DeviceAddress addressOf(uint64_t value) {
    return DeviceAddress(value);
  }
  static uint64_t valueOf(DeviceAddress address) { return address.value; }

  /// Of a device whose memory this process sees.
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
};

} // namespace polyrank::runtime
