// The device of a rehearsal, which computes nothing.

#pragma once

#include "runtime/device/HostDevice.h"

namespace polyrank::runtime {

/// Holds memory and runs no command of a plan, so it stands in for a device of
/// any target, also on machines without such a device. Has no threads beside
/// the calling one.
class IdleDevice : public HostDevice {
public:
  /// Each of these fails: who has such a device prepares the command without it
  /// (runtime/exec/Rehearsal.h).
  /// @{
  Prepared prepare(const plan::Launch &launch, const ArenaView &arena) override;
  Prepared prepare(const plan::Call &call, const ArenaView &arena) override;
  Prepared prepare(const plan::Copy &copy, int64_t index,
                   const ArenaView &arena) override;
  Result<Trials> prepareTrials(const TrialWork &work) override;
  /// @}
};

} // namespace polyrank::runtime
