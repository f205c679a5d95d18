// Assembles steps, and judges them.

#include "runtime/session/StepResults.h"

#include "runtime/session/NotFinite.h"

#include <algorithm>
#include <fmt/format.h>

namespace polyrank::runtime {

StepResults::StepResults(const Context &run) : run(run) { forget(); }

void StepResults::forget() {
  collector.emplace(run.mesh.ranks(), run.plan.programs()->size(),
                    run.options.measuresRanks());
  stuck.clear();
}

std::optional<StepReport> StepResults::add(int rank,
                                           const StepMessage &message) {
  if (message.measured)
    collector->add(rank, *message.measured);
  std::optional<StepReport> step = collector->add(rank, message.report);
  if (step && run.plan.programs()->size() > 1 && !notFinite)
    notFinite =
        findNotFinite(run.options, run.plan, *step, run.data, run.origin);
  return step;
}

void StepResults::add(int rank, const StuckMessage &message) {
  constexpr uint32_t none = ~0u;
  stuck.emplace_back(message.stored.value_or(none), rank);
  if (static_cast<int64_t>(stuck.size()) < run.mesh.ranks() || notFinite)
    return;
  auto [first, holder] = *std::min_element(stuck.begin(), stuck.end());
  std::string where =
      first == none ? "the norm of all gradients"
                    : fmt::format("the gradient of '{}' on {}",
                                  run.plan.stored()->Get(first)->name()->str(),
                                  run.mesh.describeRank(holder));
  notFinite = describeStuck(run.options, run.plan, message.step, where,
                            run.data, run.origin);
}

} // namespace polyrank::runtime
