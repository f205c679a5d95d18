// The numbers of a machine file that fit a calibration's measurements best.

#pragma once

#include "runtime/calibrate/Measurements.h"
#include "support/MachineFile.h"

#include <string>
#include <vector>

namespace polyrank::runtime {

/// How far the times by a machine file are from those that were measured, as
/// shares of the measured ones.
struct FitError {
  std::string what; // "f32 products"
  size_t count = 0;
  double median = 0, worst = 0;
};

struct FittedMachine {
  MachineFile machine; // without a path
  std::vector<FitError> errors;
};

/// Fits the numbers by the functions that the compiler asks for times
/// (compiler/cost/CommandTime.h, runtime/plan/CollectiveTime.h), so that each
/// measured time counts by its share, the small ones like the large ones.
/// `name` is that of the machine.
FittedMachine fitMachine(const Measurements &measured, const std::string &name);

/// Names what was noisy: that of which half of the things vary by more than
/// `share` of their least time, each with this variation. Empty if nothing is.
inline constexpr double noisyShare = 0.1;
std::string describeNoise(const Measurements &measured,
                          double share = noisyShare);

} // namespace polyrank::runtime
