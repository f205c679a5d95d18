// What the launcher hands to the ranks, and what it does with evaluations.

#include "runtime/session/Run.h"

#include "runtime/report/Messages.h"

#include <algorithm>
#include <csignal>
#include <limits>

namespace polyrank::runtime {

std::vector<int>
Run::descriptorsWith(const std::vector<shm::Memory> &memory) const {
  auto numberOf = [](const std::optional<OutputFile> &file) {
    return file ? file->descriptor().get() : -1;
  };
  auto fileOf = [](const std::optional<Window> &window) {
    return window ? window->descriptor() : -1;
  };
  std::vector<int> all{planDescriptor.get(),    fileOf(window),
                       numberOf(profileOutput), numberOf(traceOutput),
                       page->descriptor(),      evalPlanDescriptor.get(),
                       fileOf(evalWindow)};
  for (const shm::Memory &each : memory)
    for (int file : each.descriptors())
      all.push_back(file);
  for (const SaveOutput &save : saveOutputs)
    for (const OutputFile &file : save.files())
      all.push_back(file.descriptor().get());
  return all;
}

Result<std::vector<shm::Memory>> Run::createMemory() const {
  std::vector<shm::Memory> all;
  auto add = [&all](const LoadedPlan &plan) -> Result<void> {
    PlanReport report = reportOf(plan);
    shm::MemoryOptions options;
    for (int64_t rank = 0; rank < report.ranks; ++rank)
      options.sharedSizes.push_back(report.programOf(rank).sharedBytes);
    options.program = plan.bytes.hash;
    POLYRANK_ASSIGN(made, shm::Memory::create(options));
    all.push_back(std::move(made));
    return {};
  };
  if (Result<void> added = add(*plan); !added)
    return added.error();
  if (evaluation && evaluation->plan)
    if (Result<void> added = add(*evaluation->plan); !added)
      return added.error();
  return std::move(all);
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
