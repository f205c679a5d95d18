// The CPU as a device: the plan's kernels and libraries on one team of threads.

#pragma once

#include "runtime/device/HostDevice.h"
#include "runtime/device/cpu/Calls.h"
#include "runtime/device/cpu/KernelModule.h"

#include <memory>

namespace polyrank::runtime {

struct TrialMemory;

class CpuDevice : public HostDevice {
public:
  /// Loads the kernels, which will run on the team.
  static Result<std::unique_ptr<CpuDevice>>
  create(const plan::Image &image, std::shared_ptr<const HostTeam> team);

  Prepared prepare(const plan::Launch &launch, const ArenaView &arena) override;
  Prepared prepare(const plan::Call &call, const ArenaView &arena) override;
  Prepared prepare(const plan::Copy &copy, int64_t index,
                   const ArenaView &arena) override;
  Result<Trials> prepareTrials(const TrialWork &work) override;

private:
  CpuDevice(KernelModule module, std::shared_ptr<const HostTeam> given)
      : HostDevice(std::move(given)), module(std::move(module)),
        calls(team->size()) {}

  KernelModule module;
  CpuCalls calls;
  std::shared_ptr<TrialMemory> trialMemory; // once there are trials
};

} // namespace polyrank::runtime
