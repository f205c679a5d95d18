// The steps of a rank: samples in, a step, outputs and reports.

#pragma once

#include "runtime/session/FiniteChecks.h"
#include "runtime/session/StepMeter.h"

#include <optional>

namespace polyrank::runtime {

class Stepper {
public:
  /// The steps after `first` are run.
  Stepper(LoadedRank &rank, uint64_t first);

  /// Runs a step, counted from 0, and reports it. Called by all ranks. Does
  /// nothing if any rank cannot read its samples (`badSamples`), unless that is
  /// this session's first step: then the step fails.
  Result<void> run(uint64_t step);

  /// Set if the samples of a step could not be read, so that the training ends
  /// before it: an error if this rank could not read them.
  const std::optional<Result<void>> &badSamples() const { return bad; }

private:
  Result<void> fillInputs(uint64_t step);
  /// Returns true if all ranks have read their samples.
  Result<bool> agree(uint64_t step, bool isFilled);
  Result<void> storeOutputs(uint64_t step);
  /// Reports the step, with what the rank's program has of it.
  Result<void> report(StepReport report, std::optional<RankStep> measured);

  LoadedRank &rank;
  FiniteChecks checks;
  std::optional<StepMeter> meter; // if the times of ranks are measured
  uint64_t first;
  std::optional<Result<void>> bad;
};

} // namespace polyrank::runtime
