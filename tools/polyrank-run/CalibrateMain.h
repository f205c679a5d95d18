// polyrank-run --calibrate: measures this machine and writes a machine file.

#pragma once

#include "runtime/calibrate/Calibrate.h"
#include "tools/polyrank-run/Options.h"

namespace polyrank::runtime {

CalibrationOptions calibrationOf(const RunOptions &options);

/// The launcher's part. Returns the exit status.
int calibrateMain(const RunOptions &options);

} // namespace polyrank::runtime
