// The numbers of a machine file beside the rates and links that each machine
// has: launches, the host, the efficiency of products, the links of levels.

#pragma once

#include "compiler/cost/CommandTime.h"
#include "support/LinkLevel.h"
#include "support/MachineFile.h"

#include <string>
#include <vector>

namespace polyrank::cost {

struct Reach {
  /// Picoseconds; see DeviceRates.
  double launch = 0, host = 0;
  std::optional<ProductCurve> products = std::nullopt;
  /// None: each axis of a mesh has one link.
  std::optional<LinkLevels> levels = std::nullopt;
  /// Axes whose links are stated by themselves (--link), levels or not.
  std::vector<std::string> linkedAxes = {};

  static Reach of(const MachineFile &file);
  /// The rates of a device that reaches so much.
  DeviceRates on(double flopsPerSecond, double bytesPerSecond) const {
    return {flopsPerSecond, bytesPerSecond, launch, host, products};
  }

  friend bool operator==(const Reach &, const Reach &) = default;
};

} // namespace polyrank::cost
