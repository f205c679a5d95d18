// Measures how long a machine takes for the work of a calibration.

#pragma once

#include "runtime/calibrate/Measurements.h"
#include "runtime/comm/Communicator.h"
#include "runtime/device/Device.h"
#include "runtime/host/HostTeam.h"
#include "runtime/plan/plan_generated.h"

#include <functional>
#include <memory>
#include <string>

namespace polyrank::runtime {

struct MeasureOptions {
  /// How long to repeat the work. All of it is done at least three times,
  /// however long that takes.
  double seconds = 60;
  /// Called on rank 0 before each thing is done once more: which share of the
  /// time is over, and what is measured now.
  std::function<void(double share, const std::string &what)> onProgress = {};
};

/// The objects that a rank measures with. The plan is that of makeLaunchPlan.
struct MeasuredRank {
  const plan::Plan &plan;
  Device &device;
  Communicator &communicator; // without memory
  std::shared_ptr<const HostTeam> team;
};

/// Called by all ranks with the same number of seconds. All devices do the same
/// work at once, again and again in turns: products, additions, commands, and
/// collectives of the first 2, 3 .. ranks. Returns the same on each rank.
Result<Measurements> measureMachine(const MeasuredRank &rank,
                                    const MeasureOptions &options);

} // namespace polyrank::runtime
