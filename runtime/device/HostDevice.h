// The base of devices whose memory is this process's own.

#pragma once

#include "runtime/device/Device.h"

namespace polyrank::runtime {

/// A device in whose memory this process reads and writes, and that does all
/// work at once, on the calling thread and its helpers.
class HostDevice : public Device {
public:
  Result<DeviceMemory> allocate(uint64_t bytes, uint64_t alignment) override;
  Result<void> adopt(DeviceSpan memory) override;
  Result<Event> upload(DeviceSpan to, const Fill &fill, Event after) override;
  Result<Downloaded> download(DeviceSpan from, Event after) override;
  Result<Event> enqueue(Operation &operation, Invocation invocation,
                        Event) override {
    if (Result<void> done = operation.run(invocation); !done)
      return done.error();
    return Event();
  }
  Result<void> synchronize(Event) override { return {}; }

private:
  /// Lets the system allocate the memory's pages now, on all threads: the first
  /// touch is slow, and may fail for lack of memory.
  Result<void> findPages(std::span<std::byte> memory);
};

} // namespace polyrank::runtime
