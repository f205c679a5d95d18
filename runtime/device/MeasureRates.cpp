// Measures the rates of a device, from which the floors of command times
// follow.

#include "runtime/device/Device.h"

#include <algorithm>
#include <limits>

namespace polyrank::runtime {
namespace {

constexpr int repetitions = 4;

/// The least seconds that any of the trials takes.
Result<double> leastSeconds(Device &device, const TrialWork &work) {
  POLYRANK_ASSIGN(trials, device.prepareTrials(work));
  double least = std::numeric_limits<double>::infinity();
  for (const std::unique_ptr<Trial> &trial : trials)
    for (int n = -1; n < repetitions; ++n) { // the first is a warm-up
      int64_t start = eventClock();
      if (Result<void> done = trial->run(); !done)
        return done.error();
      if (n >= 0)
        least = std::min(least, 1e-9 * double(eventClock() - start));
    }
  return least;
}

} // namespace

Result<DeviceRates> measureRates(Device &device,
                                 std::span<const ElementType> narrow) {
  constexpr int64_t side = 1536, elements = 16 << 20;
  auto rateOf = [&](ElementType factors) -> Result<double> {
    ProductTrial product;
    product.elements = factors;
    product.m = product.n = product.k = side;
    POLYRANK_ASSIGN(seconds, leastSeconds(device, product));
    return product.flops() / seconds;
  };
  DeviceRates rates;
  POLYRANK_ASSIGN(ofF32, rateOf(ElementType::F32));
  rates.flopsPerSecond = ofF32;
  for (ElementType factors : narrow) {
    POLYRANK_ASSIGN(rate, rateOf(factors));
    rates.narrow[factors] = rate;
  }
  AdditionTrial addition{elements};
  POLYRANK_ASSIGN(seconds, leastSeconds(device, addition));
  rates.bytesPerSecond = addition.bytes() / seconds;
  return rates;
}

} // namespace polyrank::runtime
