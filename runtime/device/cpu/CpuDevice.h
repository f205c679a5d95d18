// The CPU as a device: the plan's kernels and libraries on one team of threads.

#pragma once

#include "runtime/device/HostDevice.h"
#include "runtime/device/cpu/Calls.h"
#include "runtime/device/cpu/KernelModule.h"
#include "runtime/device/cpu/ThreadTeam.h"

namespace polyrank::runtime {

struct CpuOptions {
  int threads = 1;
  bool flushDenormals = true;
};

class CpuDevice : public HostDevice {
public:
  /// Loads the kernels and starts the team.
  static Result<std::unique_ptr<CpuDevice>> create(const plan::Image &image,
                                                   const CpuOptions &options);

  Prepared prepare(const plan::Launch &launch, const ArenaView &arena) override;
  Prepared prepare(const plan::Call &call, const ArenaView &arena) override;
  Prepared prepare(const plan::Copy &copy, int64_t index,
                   const ArenaView &arena) override;
  void parallelFor(int64_t range, int64_t grain,
                   const std::function<void(int64_t, int64_t)> &body) override {
    team.parallelFor(range, grain, body);
  }
  Result<DeviceRates>
  measureRates(std::span<const ElementType> narrow) override;

private:
  CpuDevice(KernelModule module, const CpuOptions &options)
      : module(std::move(module)),
        team(options.threads, options.flushDenormals), calls(team.size()) {}

  KernelModule module;
  ThreadTeam team;
  CpuCalls calls;
};

} // namespace polyrank::runtime
