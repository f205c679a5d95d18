// What the launcher does with each message of a rank.

#include "runtime/session/RankReports.h"

#include "runtime/exec/Trace.h"

#include <fcntl.h>
#include <unistd.h>

namespace polyrank::runtime {
namespace {

/// The number of programs that report an evaluation.
uint32_t evaluatingPrograms(const Prepared &run) {
  const plan::Plan &plan =
      run.evaluation ? run.evaluation->planOr(*run.plan) : *run.plan->plan;
  return plan.programs()->size();
}

} // namespace

RankReports::RankReports(const Prepared &run, Progress &progress,
                         RunCheckpoints &checkpoints)
    : run(run), progress(progress), checkpoints(checkpoints),
      steps({run.options, *run.plan->plan, *run.mesh, run.dataOrNull(),
             run.dataState.origin}),
      evaluations(evaluatingPrograms(run), run.options.patience),
      used(size_t(run.report.ranks)) {}

void RankReports::begin(const ManifestEvaluation &until) {
  evaluations.begin(until);
  damaged.clear();
}

void RankReports::forget() {
  steps.forget();
  used.assign(used.size(), {});
  kept = false;
}

Result<void> RankReports::finish() {
  for (const StepReport &step : steps.takeRest())
    progress.step(step);
  return traced > 0 && run.isShared() ? appendToTrace(Trace::epilogue())
                                      : Result<void>();
}

Result<void> RankReports::appendToTrace(std::string_view text) const {
  Descriptor file(fcntl(run.files->trace(), F_DUPFD_CLOEXEC, 0));
  auto end = uint64_t(lseek(file.get(), 0, SEEK_END));
  return writeAt(file, run.options.trace, end, text.data(), text.size());
}

Result<std::optional<double>>
RankReports::receive(int rank, const TaggedMessage &message) {
  POLYRANK_ASSIGN(received, rankMessageFrom(message));
  std::visit([&](const auto &each) { take(rank, each); }, received);
  for (const StepReport &step : steps.takeComplete())
    progress.step(step);
  const auto *step = std::get_if<StepMessage>(&received);
  return step ? std::optional(step->report.seconds) : std::nullopt;
}

void RankReports::take(int, const ReadyReport &message) {
  progress.ready(message);
}

void RankReports::take(int rank, const StepMessage &message) {
  if (std::optional<StepReport> whole = steps.add(rank, message))
    checkpoints.note(*whole);
}

void RankReports::take(int rank, const RankStep &message) {
  steps.add(rank, message);
}

void RankReports::take(int, const SaveReport &message) {
  progress.saving(message);
}

void RankReports::take(int rank, const ShardReport &message) {
  checkpoints.take(rank, message);
}

void RankReports::take(int, const DamageMessage &message) {
  damaged = message.reason;
}

void RankReports::take(int, const EvaluationReport &message) {
  std::optional<EvaluationReport> whole = evaluations.add(message);
  if (!whole)
    return;
  checkpoints.note(*whole, evaluations.state());
  progress.evaluated(*whole);
}

void RankReports::take(int rank, const StuckMessage &message) {
  steps.add(rank, message);
}

void RankReports::take(int, const PatienceReport &message) {
  progress.stopped(message);
}

void RankReports::take(int, const SkippedSaveMessage &message) {
  checkpoints.noteSkipped(message.step);
}

void RankReports::take(int, const KeptMessage &) { kept = true; }

void RankReports::take(int, const TracedMessage &message) {
  traced = message.steps;
}

/// The ranks here have written before any other machine's begin to.
void RankReports::take(int, const TracePieceMessage &message) {
  if (Result<void> written = appendToTrace(message.text);
      !written && !notWritten)
    notWritten = written.error();
}

void RankReports::take(int rank, const RankUse &message) {
  used[size_t(rank)] = message;
}

} // namespace polyrank::runtime
