// The base of devices whose memory is this process's own.

#pragma once

#include "runtime/device/Device.h"
#include "runtime/host/HostTeam.h"

#include <utility>

namespace polyrank::runtime {

/// A device in whose memory this process reads and writes, and that does all
/// work at once, on the calling thread and its helpers.
class HostDevice : public Device {
public:
  /// Without a team the calling thread does all work.
  explicit HostDevice(std::shared_ptr<const HostTeam> team = nullptr)
      : team(std::move(team)) {}

  Result<DeviceMemory> allocate(uint64_t bytes, uint64_t alignment,
                                Sharing sharing = Sharing::Private) override;
  Result<Event> upload(DeviceSpan to, const Fill &fill, Events after) override;
  Result<Downloaded> download(DeviceSpan from, Events after) override;
  Result<Reading> read(DeviceSpan from, Events after) override;
  Result<Event> copy(DeviceSpan from, DeviceSpan to, Events after) override;
  Result<Event> enqueue(Operation &operation, Invocation invocation,
                        Events after) override;
  Result<void> mark(std::atomic<uint64_t> &word, uint64_t value,
                    Events after) override;

protected:
  std::shared_ptr<const HostTeam> team;

private:
  void parallelFor(int64_t range, int64_t grain,
                   const std::function<void(int64_t, int64_t)> &body) const {
    if (team)
      team->parallelFor(range, grain, body);
    else if (range > 0)
      body(0, range);
  }
  /// Waits for what a communicator may still do in the background.
  Result<void> await(Events after) const {
    for (const Event &event : after)
      if (Result<void> over = event.wait(); !over)
        return over;
    return {};
  }
  /// Lets the system allocate the memory's pages now, on all threads: the first
  /// touch is slow, and may fail for lack of memory.
  Result<void> findPages(std::span<std::byte> memory);
};

} // namespace polyrank::runtime
