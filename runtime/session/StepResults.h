// What ranks report of their steps, as the launcher puts it together.

#pragma once

#include "runtime/report/RankSteps.h"
#include "runtime/session/RankMessage.h"
#include "runtime/session/SessionData.h"

#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace polyrank::runtime {

/// A step is whole once the first ranks of all programs have reported it, and
/// complete once also the times of all ranks are known, if they are measured.
class StepResults {
public:
  /// The run to which the steps belong; all must outlive the results. `data`
  /// is null if the plan reads no samples; `origin` is the step after which
  /// their order began.
  struct Context {
    const SessionOptions &options;
    const plan::Plan &plan;
    const Mesh &mesh;
    const DataSource *data;
    const uint64_t &origin;
  };
  explicit StepResults(const Context &run);

  /// Adds a report of a program's first rank. Returns the whole step, if it is
  /// that now.
  std::optional<StepReport> add(int rank, const StepMessage &message);
  void add(int rank, const RankStep &step) { collector->add(rank, step); }
  /// Notes that the rank is stuck in a step.
  void add(int rank, const StuckMessage &message);

  /// Set if no rank may go on: the loss of a whole step is NaN, which the ranks
  /// of several programs cannot see, or all ranks are stuck in a step.
  const std::optional<Error> &failure() const { return notFinite; }

  /// Returns the steps that have become complete, in order.
  std::vector<StepReport> takeComplete() { return collector->takeWhole(); }
  /// Returns the steps of ranks that have ended, also those without times.
  std::vector<StepReport> takeRest() { return collector->takeRest(); }

  /// Discards the reports of a failed attempt.
  void forget();

private:
  Context run;
  std::optional<StepCollector> collector;
  /// The ranks that are stuck, by the number of the first stored tensor whose
  /// gradient was not finite there.
  std::vector<std::pair<uint32_t, int>> stuck;
  std::optional<Error> notFinite;
};

} // namespace polyrank::runtime
