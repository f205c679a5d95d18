// Whether what a rank has computed may be used further: nothing is NaN.

#pragma once

#include "runtime/session/LoadedRank.h"
#include "runtime/session/NotFinite.h"

#include <string>

namespace polyrank::runtime {

/// All checks hold at once if the user allows NaN (--allow-nan), and for
/// forward plans.
class FiniteChecks {
public:
  explicit FiniteChecks(LoadedRank &rank)
      : rank(rank), stops(stopsAtNan(rank.options, rank.plan())) {}

  /// Called after a step, whose metrics are read into `report` if it has none.
  /// If the step could neither be applied nor skipped, tells the launcher which
  /// is the first parameter of this rank whose gradient was not finite. All
  /// ranks do so, and the launcher then ends the run: the call fails.
  Result<void> checkStuck(StepReport &report) const;
  /// Fails if the loss of a step is NaN. With several programs the launcher
  /// checks it instead: loss and count may be in two programs.
  Result<void> checkLoss(const StepReport &report) const;
  bool stopAtNan() const { return stops; }
  /// The error of weights that are not finite, with what the user can do.
  static Error explain(const Error &error, const std::string &latest);
  /// Fails if weights that were finite when they were loaded no longer are.
  /// `latest` is for the message: "step 3".
  Result<void> checkWeights(const std::string &latest) const;
  /// Called before files of weights are written: fails, on all ranks before any
  /// of them begins to write, if the weights are not finite or do not fit the
  /// type of the files.
  Result<void> checkSaved() const;

private:
  LoadedRank &rank;
  bool stops;
};

/// Reads the metrics of the latest step into its report.
Result<void> readMetrics(RankProgram &program, StepReport &report);

} // namespace polyrank::runtime
