// The steps of a rank: samples in, a step, outputs and reports.

#pragma once

#include "runtime/session/FiniteChecks.h"
#include "runtime/session/StepMeter.h"

#include <deque>
#include <memory>
#include <optional>

namespace polyrank::runtime {

class Stepper {
public:
  /// The steps after `first` are run.
  Stepper(LoadedRank &rank, uint64_t first);

  /// Runs a step, counted from 0, and reports it once it is over: on a device
  /// that works in the background that may be during the next call, so a NaN is
  /// seen a step late there. Called by all ranks. Does nothing if any rank
  /// cannot read its samples (`badSamples`), unless that is this session's
  /// first step: then the step fails. Samples of the step after it are read in
  /// the background.
  Result<void> run(uint64_t step);
  /// Waits for the steps that are not over yet, and reports them. Called before
  /// anything is saved or evaluated, and at the end: nothing follows a NaN.
  Result<void> finish() { return reportOver(0); }

  /// True if no samples were left for the latest step, which was not run.
  bool hasEnded() const { return ended; }
  /// Set if the samples of a step could not be read, so that the training ends
  /// before it: an error if this rank could not read them.
  const std::optional<Result<void>> &badSamples() const { return bad; }

private:
  /// A step that was run and not reported yet.
  struct Pending {
    uint64_t step = 0;
    int64_t began = 0;  // when the host began it, in nanoseconds
    int64_t agreed = 0; // how long ranks agreed that all have their samples
    std::shared_ptr<const StepRun> run;
    MetricReadings metrics;
    int64_t stored = 0; // when its outputs were stored; 0: it has none
  };

  Result<void> fillInputs(Pending &next);
  /// Waits for the samples of a step from a stream. All ranks get the same
  /// answer.
  Result<void> awaitSamples(const Pending &next);
  /// True if what was trained is saved.
  bool savesAny() const;
  /// Returns true if all ranks have read their samples.
  Result<bool> agree(bool isFilled);
  Result<void> storeOutputs(uint64_t step);
  /// Reports the steps that are over, and waits for all but `most` of them.
  Result<void> reportOver(size_t most);
  /// Reports a step that is over, with what the rank's program has of it.
  Result<void> report(const Pending &step);

  LoadedRank &rank;
  FiniteChecks checks;
  std::optional<StepMeter> meter; // if the times of ranks are measured
  uint64_t first;
  std::deque<Pending> pending; // oldest first
  int64_t lastEnd = 0;         // of the step that was reported last
  std::optional<Result<void>> bad;
  bool ended = false;
};

} // namespace polyrank::runtime
