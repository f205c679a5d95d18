// Measures a machine: starts a rank for each of its devices, and collects what
// they have measured.

#pragma once

#include "runtime/calibrate/Measurements.h"
#include "runtime/launch/Launcher.h"

#include <string>
#include <vector>

namespace polyrank::runtime {

struct CalibrationOptions {
  int threads = 1; // of each device
  double seconds = 60;
  std::optional<Binding> binding; // by default cores if possible
  bool quiet = false;
  /// The command line of the ranks, by which they are ranks of a calibration.
  std::vector<std::string> arguments;
};

/// The devices that a calibration measures: as many as there are cores for
/// their threads. Fails if there are too few cores for one.
Result<int> countDevices(int threads);

/// The launcher's part. Shows on standard error what is measured, and how far
/// it is.
Result<Measurements> calibrate(const CalibrationOptions &options);

/// The part of a rank. Returns its exit status.
int calibrateRank(const CalibrationOptions &options,
                  const RankConnection &connection);

} // namespace polyrank::runtime
