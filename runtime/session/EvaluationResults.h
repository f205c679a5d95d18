// What ranks report of evaluations, as the launcher puts it together.

#pragma once

#include "runtime/report/Progress.h"
#include "runtime/session/Evaluation.h"

#include <map>
#include <optional>
#include <utility>

namespace polyrank::runtime {

/// An evaluation is whole once the first ranks of all programs of the plan that
/// evaluates have reported it.
class EvaluationResults {
public:
  EvaluationResults(uint32_t programs, uint64_t patience)
      : programs(programs), most(patience), patience(patience) {}

  /// The ranks begin after evaluations with this result. Discards what they
  /// have reported of later ones.
  void begin(const ManifestEvaluation &until);
  /// Adds the report of a program's first rank. Returns the whole evaluation,
  /// if it is that now; then `state` includes it.
  std::optional<EvaluationReport> add(EvaluationReport report);
  /// The result of all evaluations so far.
  const ManifestEvaluation &state() const { return patience.state(); }

private:
  uint32_t programs;
  uint64_t most;
  Patience patience;
  std::map<uint64_t, std::pair<EvaluationReport, uint32_t>> pending; // by step
};

} // namespace polyrank::runtime
