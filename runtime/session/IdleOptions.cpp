// The rules by which an option of a run has no effect.

#include "runtime/session/IdleOptions.h"

#include "runtime/session/Evaluation.h"

#include <algorithm>
#include <fmt/format.h>

namespace polyrank::runtime {
namespace {

struct Situation {
  const SessionOptions &options;
  const LoadedPlan &plan;
  uint64_t steps, stepsBefore;

  bool trains() const { return plan.plan->mode() == plan::Mode::Train; }
};

/// Why an option has no effect; empty if it has one.
using Reason = std::string;

struct Rule {
  const char *option;
  Reason (*explain)(const Situation &);
};

Reason allIsDone(const Situation &run) {
  return run.stepsBefore == 0 || run.stepsBefore < run.steps
             ? ""
             : fmt::format(
                   "the checkpoint is of step {}, and the run has {} "
                   "steps, those before it included, so none is left to "
                   "train; give more --steps",
                   run.stepsBefore, run.steps);
}

Reason endsBefore(const Situation &run) {
  uint64_t every = run.options.checkpoints.everySteps;
  return every == 0 || every < run.steps
             ? ""
             : fmt::format("the run ends after step {}, where a checkpoint is "
                           "written in any case",
                           run.steps);
}

Reason hasFewEvaluations(const Situation &run) {
  uint64_t every = run.options.evalEvery;
  // A checkpoint may have earlier evaluations.
  if (every == 0 || run.stepsBefore > 0)
    return "";
  uint64_t evaluations = (run.steps + every - 1) / every;
  return run.options.patience + 1 < evaluations
             ? ""
             : fmt::format(
                   "of {} evaluations none but the last can be the {}th "
                   "without a smaller loss, and the run ends there in "
                   "any case",
                   evaluations, run.options.patience);
}

Reason takesSamplesInOrder(const Situation &run) {
  return run.trains() ? "" : "a forward plan takes the samples as they stand";
}

Reason drawsNothing(const Situation &run) {
  bool shuffles = run.options.order == SampleOrder::Random &&
                  !run.options.samples().empty();
  return shuffles || drawsNumbers(run.plan)
             ? ""
             : "nothing is drawn: the samples are taken as they stand, and the "
               "plan has no dropout or other random numbers";
}

Reason savesNoFolder(const Situation &run) {
  for (const SaveFile &save : run.options.saves())
    if (save.path.ends_with('/'))
      return "";
  return "no weights are saved into a folder; a path that ends in / is one";
}

Reason savesAsComputed(const Situation &run) {
  if (!run.options.savesAny())
    return "no weights are saved";
  if (run.options.saveFloats != ElementType::UNDEFINED ||
      !run.plan.plan->stored())
    return "";
  for (const plan::StoredTensor *stored : *run.plan.plan->stored())
    if (ElementType type = ElementType(stored->dtype());
        isFloat(type) && type != ElementType::F32 && !stored->complex())
      return "";
  return "the model's file stores all floats in float32";
}

constexpr Rule rules[] = {
    {"resume", allIsDone},           {"every", endsBefore},
    {"patience", hasFewEvaluations}, {"order", takesSamplesInOrder},
    {"seed", drawsNothing},          {"save-shard-size", savesNoFolder},
    {"save-dtype", savesAsComputed}};

} // namespace

std::vector<std::string> findIdle(const SessionOptions &options,
                                  const LoadedPlan &plan, uint64_t steps,
                                  uint64_t stepsBefore) {
  Situation run{options, plan, steps, stepsBefore};
  std::vector<std::string> found;
  for (const Rule &rule : rules)
    if (options.given.count(rule.option))
      if (Reason reason = rule.explain(run); !reason.empty())
        found.push_back(
            fmt::format("--{} changes nothing: {}", rule.option, reason));
  return found;
}

} // namespace polyrank::runtime
