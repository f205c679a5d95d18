// Runs and reports steps.

#include "runtime/session/Stepper.h"

#include <chrono>
#include <fmt/format.h>

namespace polyrank::runtime {

Stepper::Stepper(LoadedRank &rank, uint64_t first)
    : rank(rank), checks(rank), first(first) {
  if (rank.options.measuresRanks())
    meter.emplace(*rank.program, *rank.transport);
}

Result<void> Stepper::run(uint64_t step) {
  // Programs that communicate must begin a step together.
  if (rank.rehearsal && rank.loaded->programs() > 1)
    if (Result<void> all = rank.awaitAll(); !all)
      return all;
  auto start = std::chrono::steady_clock::now();
  CommandTimes before = rank.program->times();
  if (meter)
    meter->begin();
  if (rank.data)
    if (Result<void> filled = fillInputs(step); !filled)
      return filled;
  if (bad)
    return {};
  if (auto ran = rank.program->runStep(step + 1); !ran)
    return ran.error();
  if (Result<void> stored = storeOutputs(step); !stored)
    return stored;
  std::optional<RankStep> measured;
  if (meter)
    measured = meter->end(step + 1);
  StepReport done;
  done.step = step + 1;
  if (!rank.isFirstOfProgram()) {
    if (measured)
      rank.report(*measured);
    return checks.checkStuck(done);
  }
  done.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  if (!rank.batches.empty())
    done.share = static_cast<double>(rank.batchOf(step).count) /
                 static_cast<double>(rank.plan().samples_per_step());
  CommandTimes times = rank.program->times();
  for (int kind = 0; kind < numCommandKinds; ++kind)
    times.nanoseconds[kind] -= before.nanoseconds[kind];
  done.communicationShare = times.communicationShare();
  return report(std::move(done), std::move(measured));
}

Result<void> Stepper::report(StepReport done,
                             std::optional<RankStep> measured) {
  if (!rank.rehearsal) { // a rehearsal has no values
    if (Result<void> read = readMetrics(*rank.program, done); !read)
      return read;
    for (const Metric &rate : rank.program->learningRates(done.step))
      done.learningRates.emplace_back(rate.name, rate.value);
  }
  rank.report(StepMessage{done, std::move(measured)});
  if (Result<void> goesOn = checks.checkStuck(done); !goesOn)
    return goesOn;
  return checks.checkLoss(done);
}

Result<void> Stepper::storeOutputs(uint64_t step) {
  if (rank.outputs.empty())
    return {};
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

/// Unless all samples were checked before the run, all ranks agree before any
/// of them begins the step, so that the training up to there can be saved.
Result<void> Stepper::fillInputs(uint64_t step) {
  Result<void> filled =
      rank.program->fillInputs(*rank.data, rank.batchOf(step));
  if (!filled)
    filled = Error{fmt::format("step {}: {}", step + 1, filled.error().message),
                   filled.error().fault};
  bool savesAny =
      rank.options.savesAny() || !rank.options.checkpoints.folder.empty();
  if (step == first || !savesAny || rank.data->isChecked())
    return filled;
  POLYRANK_ASSIGN(isRead, agree(step, bool(filled)));
  if (!isRead)
    bad.emplace(filled);
  return {};
}

Result<bool> Stepper::agree(uint64_t step, bool isFilled) {
  if (!isFilled)
    rank.page->refuse(step + 1);
  if (Result<void> all = rank.awaitAll(); !all)
    return all.error();
  return !rank.page->isRefused(step + 1);
}

} // namespace polyrank::runtime
