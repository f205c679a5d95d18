// What the launcher does with evaluations: their shared memory, and their
// results.

#include "tools/polyrank-run/Run.h"

#include "runtime/report/Messages.h"

#include <algorithm>
#include <csignal>
#include <limits>

namespace polyrank::runtime {

std::vector<int>
Run::descriptorsWith(const std::optional<shm::Job> &evalJob) const {
  auto numberOf = [](const std::optional<OutputFile> &file) {
    return file ? file->descriptor().get() : -1;
  };
  std::vector<int> all{
      planDescriptor.get(),    sharedMemory.get(),
      numberOf(profileOutput), numberOf(traceOutput),
      page->descriptor(),      evalPlanDescriptor.get(),
      evalMemory.get(),        evalJob ? evalJob->descriptors().control : -1};
  if (evalJob)
    for (int arena : evalJob->descriptors().arenas)
      all.push_back(arena);
  for (const SaveOutput &save : saveOutputs)
    for (const OutputFile &file : save.files())
      all.push_back(file.descriptor().get());
  return all;
}

Result<std::optional<shm::Job>>
Run::createEvaluationJob(const shm::JobOptions &training) const {
  if (!evaluation || !evaluation->plan)
    return std::optional<shm::Job>();
  shm::JobOptions job = training;
  PlanReport own = reportOf(*evaluation->plan);
  job.sharedSizes.clear();
  for (int64_t rank = 0; rank < own.ranks; ++rank)
    job.sharedSizes.push_back(own.programOf(rank).sharedBytes);
  job.program = evaluation->plan->bytes.hash;
  POLYRANK_ASSIGN(made, shm::Job::create(job));
  return std::optional<shm::Job>(std::move(made));
}

void Run::takeEvaluation(EvaluationReport report) {
  auto &[whole, count] = evaluated[report.step];
  if (count == 0)
    whole = std::move(report);
  else
    whole.add(report);
  if (++count < evaluation->planOr(*plan).programs()->size())
    return;
  // Without a loss no evaluation is the best.
  auto loss = std::find_if(
      whole.metrics.begin(), whole.metrics.end(),
      [](const auto &metric) { return metric.first == "eval_loss"; });
  patience.add(whole.step, loss == whole.metrics.end()
                               ? std::numeric_limits<double>::quiet_NaN()
                               : loss->second);
  if (committer)
    committer->evaluated(patience.state(), whole.metrics);
  progress->evaluated(whole);
  evaluated.erase(whole.step);
}

std::optional<ManifestEvaluation> Run::evaluationsBefore() const {
  return resumed && !isAnotherRun() ? resumed->manifest.evaluation
                                    : std::nullopt;
}

bool Run::isToEvaluate() const {
  return evaluation && resumed && !isAnotherRun() &&
         evaluatesAgain(options, resumed->manifest, steps);
}

} // namespace polyrank::runtime
