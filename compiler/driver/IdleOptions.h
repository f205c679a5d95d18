// What a compilation was asked for and did not need: options that leave the
// step as it would be without them, and work that ranks do twice or wait for.

#pragma once

#include <string>
#include <vector>

#include "compiler/driver/Driver.h"
#include "compiler/sharding/Why.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace polyrank::driver {

/// What a step in parts has of that which options ask for.
struct StepHoldings {
  int64_t ranks = 1;
  /// Collectives, and those that --zero has brought about.
  int64_t collectives = 0, zeroCollectives = 0;
  /// Of the parameters that --zero could split, that of which a rank has most
  /// elements; empty: there is none.
  std::string largestParameter;
  int64_t largestElements = 0;
  /// Ranks along the axes of --batch-axes, and whether one of these splits an
  /// input.
  int64_t batchRanks = 1;
  bool splitsBatch = false;
  /// Of a pipeline: its axis, the ranks along it, and of each the FLOPs of a
  /// step. Empty: there is none.
  std::string pipeAxis;
  std::vector<int64_t> flopsAlongPipe;
  std::vector<sharding::Replicated> replicated;

  /// `step` is in parts, as the partition pipeline leaves it.
  static StepHoldings of(mlir::func::FuncOp step, const Options &options);
};

/// One text for each reason for which options of the command line change
/// nothing, and for each work that is done twice or stands still, with the way
/// out. In the order of the rules in IdleOptions.cpp.
std::vector<std::string> findIdle(const Options &options,
                                  const StepHoldings &step);

} // namespace polyrank::driver
