// The library calls of the CPU.

#pragma once

#include "runtime/device/cpu/GemmCalls.h"

namespace polyrank::runtime {

class CpuCalls {
public:
  explicit CpuCalls(int threads) : threads(threads), gemms(threads) {}

  /// Prepares a call by its body; see Device::prepare.
  Device::Prepared prepare(const plan::Call &call, const ArenaView &arena);

private:
  int threads;
  GemmCalls gemms;
};

} // namespace polyrank::runtime
