// Looks for NaN in losses, gradients and weights.

#include "runtime/session/FiniteChecks.h"

#include <chrono>
#include <fmt/format.h>
#include <thread>

namespace polyrank::runtime {

Result<void> readMetrics(RankProgram &program, StepReport &report) {
  POLYRANK_ASSIGN(metrics, program.metrics());
  for (const Metric &metric : metrics)
    report.metrics.emplace_back(metric.name, metric.value);
  return {};
}

Result<void> FiniteChecks::checkStuck(StepReport &report) const {
  if (!stops || rank.rehearsal || !rank.program->hasMetric("skipped"))
    return {};
  if (report.metrics.empty())
    if (Result<void> read = readMetrics(*rank.program, report); !read)
      return read;
  if (!report.isStuck())
    return {};
  POLYRANK_ASSIGN(first, rank.program->findNotFinite());
  rank.report(StuckMessage{report.step, first});
  // The launcher ends the run once it has heard all ranks. Until then none goes
  // on: it would compute with NaN, and report the same of the next step.
  constexpr auto pause = std::chrono::milliseconds(1);
  for (;; std::this_thread::sleep_for(pause))
    if (Result<void> all = rank.awaitAll(); !all)
      return all;
}

Result<void> FiniteChecks::checkLoss(const StepReport &report) const {
  if (rank.loaded->programs() != 1)
    return {};
  auto fault =
      findNotFinite(rank.options, rank.plan(), report,
                    rank.data ? &*rank.data : nullptr, rank.facts().origin);
  return fault ? Result<void>(*fault) : Result<void>();
}

Result<void> FiniteChecks::checkWeights(const std::string &latest) const {
  if (!stops)
    return {};
  if (Result<void> finite = rank.program->checkFinite(); !finite)
    return explain(finite.error(), latest);
  return {};
}

Error FiniteChecks::explain(const Error &error, const std::string &latest) {
  return error.saying(error.message + " after " + latest +
                      "; lower the learning rate, or go on with --allow-nan");
}

Result<void> FiniteChecks::checkSaved() const {
  if (Result<void> finite = checkWeights("the last step"); !finite)
    return finite;
  const SessionOptions &options = rank.options;
  bool narrows = options.savesAny() && options.saveFloats != ElementType::F32;
  if (narrows)
    for (const SaveFile &save : options.saves())
      if (!save.path.empty())
        if (Result<void> fits = rank.program->checkRange(save.what); !fits)
          return fits;
  return narrows || stops ? rank.awaitAll() : Result<void>();
}

} // namespace polyrank::runtime
