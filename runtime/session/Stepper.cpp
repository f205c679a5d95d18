// Runs and reports steps.

#include "runtime/session/Stepper.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace polyrank::runtime {

Stepper::Stepper(LoadedRank &rank, uint64_t first)
    : rank(rank), checks(rank), first(first) {
  if (rank.options.measuresRanks())
    meter.emplace(*rank.communicator);
}

Result<void> Stepper::run(uint64_t step) {
  // Programs that communicate must begin a step together.
  if (rank.rehearsal && rank.loaded->programs() > 1)
    if (Result<void> all = rank.awaitAll(); !all)
      return all;
  Pending next;
  next.step = step;
  next.began = eventClock();
  if (rank.data)
    if (Result<void> filled = fillInputs(next); !filled)
      return filled;
  if (bad || ended)
    return reportOver(0);
  if (rank.data && step + 1 < rank.steps)
    rank.program->readAhead(*rank.data, rank.batchOf(step + 1));
  POLYRANK_ASSIGN(run, rank.program->runStep(step + 1));
  next.run = std::move(run);
  if (!rank.rehearsal) { // a rehearsal has no values
    POLYRANK_ASSIGN(metrics, rank.program->readMetrics());
    next.metrics = std::move(metrics);
  }
  if (!rank.outputs.empty()) {
    if (Result<void> stored = storeOutputs(step); !stored)
      return stored;
    next.stored = eventClock();
  }
  pending.push_back(std::move(next));
  return reportOver(1);
}

Result<void> Stepper::reportOver(size_t most) {
  while (!pending.empty() &&
         (pending.size() > most || (pending.front().run->isOver &&
                                    pending.front().metrics.areThere()))) {
    if (!pending.front().run->isOver)
      if (Result<void> over = rank.program->finishSteps(pending.size() - 1);
          !over)
        return over;
    Pending done = std::move(pending.front());
    pending.pop_front();
    if (Result<void> reported = report(done); !reported)
      return reported;
  }
  return {};
}

Result<void> Stepper::report(const Pending &step) {
  StepReport done;
  done.step = step.step + 1;
  int64_t end = std::max(step.run->end, step.stored);
  double seconds =
      1e-9 * static_cast<double>(end - std::max(step.began, lastEnd));
  lastEnd = end;
  POLYRANK_ASSIGN(metrics, step.metrics.values());
  for (const Metric &metric : metrics)
    done.metrics.emplace_back(metric.name, metric.value);
  std::optional<RankStep> measured;
  if (meter)
    measured = meter->end(done.step, seconds, *step.run,
                          1e-9 * static_cast<double>(step.agreed));
  if (!rank.isFirstOfProgram()) {
    if (measured)
      rank.report(*measured);
    return checks.checkStuck(done);
  }
  done.seconds = seconds;
  done.dataSeconds = step.run->dataSeconds();
  if (!rank.batches.empty())
    done.share = static_cast<double>(rank.batchOf(step.step).count) /
                 static_cast<double>(rank.plan().samples_per_step());
  // Of the step, as that of the samples is.
  double commands = 1e-9 * static_cast<double>(step.run->times.total()),
         all = commands + done.dataSeconds;
  if (all > 0)
    done.communicationShare =
        step.run->times.communicationShare() * commands / all;
  if (!rank.rehearsal)
    for (const Metric &rate : rank.program->learningRates(done.step))
      done.learningRates.emplace_back(rate.name, rate.value);
  rank.report(StepMessage{done, std::move(measured)});
  if (Result<void> goesOn = checks.checkStuck(done); !goesOn)
    return goesOn;
  return checks.checkLoss(done);
}

Result<void> Stepper::storeOutputs(uint64_t step) {
  Batch batch = rank.batchOf(step);
  for (const OutputArray &output : rank.outputs)
    if (output.program == rank.program->programNumber())
      if (Result<void> stored = rank.program->storeOutput(
              output.number, batch, rank.samples,
              rank.window.data().data() + output.offset);
          !stored)
        return stored;
  return {};
}

Result<void> Stepper::awaitSamples(const Pending &next) {
  Result<bool> isThere =
      rank.data->await(rank.batchOf(next.step), [this]() -> Result<void> {
        rank.beat();
        return rank.job->health();
      });
  if (isThere) {
    ended = !*isThere;
    return {};
  }
  if (next.step == first || !savesAny() || !rank.job->health())
    return isThere.error();
  bad.emplace(isThere.error());
  return {};
}

bool Stepper::savesAny() const {
  return rank.options.savesAny() || !rank.options.checkpoints.folder.empty();
}

/// Unless all samples were checked before the run, all ranks agree before any
/// of them begins the step, so that the training up to there can be saved.
Result<void> Stepper::fillInputs(Pending &next) {
  uint64_t step = next.step;
  if (rank.data->isStream()) {
    if (Result<void> awaited = awaitSamples(next); !awaited)
      return awaited;
    if (bad || ended)
      return {};
  }
  Result<void> filled =
      rank.program->fillInputs(*rank.data, rank.batchOf(step), next.began);
  if (!filled)
    filled = Error{fmt::format("step {}: {}", step + 1, filled.error().message),
                   filled.error().fault};
  if (step == first || !savesAny() || rank.data->isChecked())
    return filled;
  int64_t filledAt = eventClock();
  POLYRANK_ASSIGN(isRead, agree(bool(filled)));
  next.agreed = eventClock() - filledAt;
  if (!isRead)
    bad.emplace(filled);
  return {};
}

Result<bool> Stepper::agree(bool isFilled) {
  POLYRANK_ASSIGN(missing, rank.exchange(isFilled ? 0 : 1));
  return std::all_of(missing.begin(), missing.end(),
                     [](uint64_t each) { return each == 0; });
}

} // namespace polyrank::runtime
