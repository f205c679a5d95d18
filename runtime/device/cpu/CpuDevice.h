// The CPU as a device: the plan's kernels and libraries on one team of threads.

#pragma once

#include "runtime/device/Device.h"
#include "runtime/device/cpu/Calls.h"
#include "runtime/device/cpu/KernelModule.h"
#include "runtime/device/cpu/ThreadTeam.h"

namespace polyrank::runtime {

struct CpuOptions {
  int threads = 1;
  bool flushDenormals = true;
};

class CpuDevice : public Device {
public:
  /// Loads the kernels and starts the team.
  static Result<std::unique_ptr<CpuDevice>> create(const plan::Kernels &kernels,
                                                   const CpuOptions &options);

  Result<DeviceMemory> allocate(uint64_t bytes, uint64_t alignment) override;
  Result<void> adopt(DeviceSpan memory) override;
  Result<Event> upload(DeviceSpan to, const Fill &fill, Event after) override;
  Result<Downloaded> download(DeviceSpan from, Event after) override;
  /// Runs the operation at once, on the calling thread and its team.
  Result<Event> enqueue(Operation &operation, Invocation invocation,
                        Event) override {
    if (Result<void> done = operation.run(invocation); !done)
      return done.error();
    return Event();
  }
  Result<void> synchronize(Event) override { return {}; }

  Prepared prepare(const plan::Launch &launch, const ArenaView &arena) override;
  Prepared prepare(const plan::Call &call, const ArenaView &arena) override;
  Prepared prepare(const plan::Copy &copy, int64_t index,
                   const ArenaView &arena) override;
  void parallelFor(int64_t range, int64_t grain,
                   const std::function<void(int64_t, int64_t)> &body) override {
    team.parallelFor(range, grain, body);
  }
  Result<DeviceRates> measureRates() override;

private:
  CpuDevice(KernelModule module, const CpuOptions &options)
      : module(std::move(module)),
        team(options.threads, options.flushDenormals), calls(team.size()) {}

  Result<void> findPages(std::span<std::byte> memory);

  KernelModule module;
  ThreadTeam team;
  CpuCalls calls;
};

} // namespace polyrank::runtime
