// The device of a rehearsal, which computes nothing.

#include "runtime/device/IdleDevice.h"

namespace polyrank::runtime {
namespace {

Error computesNothing(const char *what) {
  return {std::string("the device of a rehearsal computes nothing, but it is "
                      "given ") +
          what};
}

} // namespace

Device::Prepared IdleDevice::prepare(const plan::Launch &, const ArenaView &) {
  return computesNothing("a launch");
}

Device::Prepared IdleDevice::prepare(const plan::Call &, const ArenaView &) {
  return computesNothing("a library call");
}

Device::Prepared IdleDevice::prepare(const plan::Copy &, int64_t,
                                     const ArenaView &) {
  return computesNothing("a copy");
}

Result<Trials> IdleDevice::prepareTrials(const TrialWork &) {
  return computesNothing("rates to measure");
}

} // namespace polyrank::runtime
