// Merges the reports of an evaluation.

#include "runtime/session/EvaluationResults.h"

#include <algorithm>
#include <limits>

namespace polyrank::runtime {

void EvaluationResults::begin(const ManifestEvaluation &until) {
  pending.clear();
  patience = Patience(most, until);
}

std::optional<EvaluationReport>
EvaluationResults::add(EvaluationReport report) {
  auto &[whole, count] = pending[report.step];
  if (count == 0)
    whole = std::move(report);
  else
    whole.add(report);
  if (++count < programs)
    return std::nullopt;
  EvaluationReport done = std::move(whole);
  pending.erase(done.step);
  // Without a loss no evaluation is the best.
  auto loss = std::find_if(
      done.metrics.begin(), done.metrics.end(),
      [](const auto &metric) { return metric.first == "eval_loss"; });
  patience.add(done.step, loss == done.metrics.end()
                              ? std::numeric_limits<double>::quiet_NaN()
                              : loss->second);
  return done;
}

} // namespace polyrank::runtime
