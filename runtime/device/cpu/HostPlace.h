// A buffer of the plan in this process.

#pragma once

#include "runtime/device/Device.h"
#include "runtime/device/DeviceAccess.h"

namespace polyrank::runtime {

struct HostPlace {
  Address address;

  std::byte *at(Invocation invocation) const {
    return DeviceAccess::pointerTo(address.at(invocation));
  }
};

inline HostPlace placeOf(const plan::BufferRef &buffer,
                         const ArenaView &arena) {
  return {arena.resolve(buffer)};
}

} // namespace polyrank::runtime
