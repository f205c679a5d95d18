// The time of commands on a device.

#include "compiler/cost/CommandTime.h"

#include <algorithm>

namespace polyrank::cost {

double ProductCurve::getSlowdown(const Product &product) const {
  auto tiles = [this](int64_t size) {
    return static_cast<double>((size + tile - 1) / tile);
  };
  double whole = static_cast<double>(product.batch) * tiles(product.rows) *
                 tiles(product.columns);
  double computed = (whole + halfTiles) * static_cast<double>(tile * tile),
         wanted = static_cast<double>(product.batch) *
                  static_cast<double>(product.rows) *
                  static_cast<double>(product.columns),
         depth = static_cast<double>(product.depth);
  return computed / wanted * ((depth + halfDepth) / depth);
}

double getCommandTime(const CommandWork &work, const DeviceRates &rates) {
  double computes = 1e12 * work.flops / rates.flopsPerSecond;
  if (work.product && rates.products)
    computes *= rates.products->getSlowdown(*work.product);
  double launch = work.flops == 0 ? rates.launch : 0;
  return std::max(1e12 * work.bytes / rates.bytesPerSecond, computes) + launch;
}

double IssueClock::run(double time) {
  if (host == 0) {
    finished += time;
    return time;
  }
  issued += host;
  double before = finished;
  onDevice += time;
  finished = std::max(onDevice, issued);
  return finished - before;
}

} // namespace polyrank::cost
