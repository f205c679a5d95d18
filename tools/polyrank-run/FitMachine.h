// The numbers of a machine file that fit a calibration's measurements best.

#pragma once

#include "runtime/calibrate/Measurements.h"
#include "support/MachineFile.h"

#include <string>
#include <vector>

namespace polyrank::runtime {

/// One thing that was measured, and how long it takes by the machine file.
struct FitRow {
  std::string group, what;          // "f32 products", "256 x 512 x 128"
  double measured = 0, planned = 0; // seconds

  /// How far the planned time is off, as a share of the measured one.
  double error() const;
};

struct FittedMachine {
  MachineFile machine; // without a path
  std::vector<FitRow> rows;
};

/// For each group how many rows it has, and the median and the worst error:
/// "f32 products: 18 times, met to 8 % in the median and 31 % at worst (16 x
/// 256 x 64)", each on a line.
std::string describeErrors(const std::vector<FitRow> &rows);

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
