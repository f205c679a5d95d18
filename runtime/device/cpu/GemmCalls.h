// GEMMs of a plan, prepared for a team of threads.

#pragma once

#include "runtime/device/Device.h"
#include "runtime/device/cpu/Gemm.h"

#include <utility>
#include <vector>

namespace polyrank::runtime {

class GemmCalls {
public:
  explicit GemmCalls(int threads) : threads(threads) {}

  /// Prepares a call whose body is a GEMM; see Device::prepare.
  Device::Prepared prepare(const plan::Call &call, const ArenaView &arena);

private:
  Result<PreparedGemm *> preparedGemm(const GemmShape &shape);

  int threads;
  /// One for each distinct shape; a model has few.
  std::vector<std::pair<GemmShape, std::unique_ptr<PreparedGemm>>> gemms;
};

} // namespace polyrank::runtime
