// Finds options that leave the step as it would be without them, and work that
// ranks repeat or wait for.

#pragma once

#include <string>
#include <vector>

#include "compiler/driver/Driver.h"
#include "compiler/sharding/Why.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace polyrank::driver {

/// The parts of a partitioned step that options ask for.
struct StepHoldings {
  int64_t ranks = 1;
  /// The number of collectives, and of those that --zero has added.
  int64_t collectives = 0, zeroCollectives = 0;
  /// Of the parameters that --zero could split, the one of which a rank has
  /// most elements; empty if there is none.
  std::string largestParameter;
  int64_t largestElements = 0;
  /// The number of ranks along the axes of --batch-axes; true if one of these
  /// splits an input.
  int64_t batchRanks = 1;
  /// True if an attention is one op.
  bool hasAttention = false;
  /// True if parts of a gradient are rounded before they are sent.
  bool roundsGradients = false;
  /// True if a value is a float of less than 32 bits.
  bool hasNarrowFloats = false;
  bool splitsBatch = false;
  /// The pipeline's axis, and the FLOPs per step of each rank along it. Empty
  /// without a pipeline.
  std::string pipeAxis;
  std::vector<int64_t> flopsAlongPipe;
  std::vector<sharding::Replicated> replicated;

  /// Reads `step` as the partition passes leave it.
  static StepHoldings of(mlir::func::FuncOp step, const Options &options);
};

/// One text per reason why options of the command line change nothing, and per
/// kind of work that is repeated or that idles, with a remedy. In the order of
/// the rules in IdleOptions.cpp.
std::vector<std::string> findIdle(const Options &options,
                                  const StepHoldings &step);

} // namespace polyrank::driver
