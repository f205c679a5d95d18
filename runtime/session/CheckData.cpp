// Checks the samples of a run, and those that it evaluates.

#include "runtime/session/Checks.h"
#include "runtime/session/Resume.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>

namespace polyrank::runtime {
namespace {

/// Returns a tensor output without a batch dim, of which each batch makes one,
/// or null.
const plan::Output *findOutputWithoutBatch(const plan::Plan &plan) {
  for (const plan::Program *program : *plan.programs())
    for (const plan::Output *output : *program->outputs())
      if (output->kind() == plan::OutputKind::Tensor &&
          output->batch_dim() == noBatch)
        return output;
  return nullptr;
}

Result<void> checkEvaluation(Prepared &run, bool whole) {
  if (run.options.evalEvery == 0 || !run.data)
    return {};
  if (!run.options.evalPlan.empty()) {
    run.evalPlanDescriptor =
        Descriptor(open(run.options.evalPlan.c_str(), O_RDONLY | O_CLOEXEC));
    if (run.evalPlanDescriptor.get() < 0)
      return Error{fmt::format("cannot open --eval-plan '{}': {}",
                               run.options.evalPlan, std::strerror(errno))};
  }
  POLYRANK_ASSIGN(opened, openEvaluation(run.options, *run.plan,
                                         run.evalPlanDescriptor.get()));
  run.evaluation.emplace(std::move(opened));
  return whole ? run.evaluation->data->checkAll()
               : run.evaluation->data->checkRanges();
}

} // namespace

Result<std::string> checkData(Prepared &run, bool whole) {
  run.steps = run.options.steps;
  if (!run.options.samples().empty()) {
    POLYRANK_ASSIGN(source, openData(run.options, *run.plan->plan));
    run.data.emplace(std::move(source));
    run.steps = stepsOf(run.options, *run.plan->plan, *run.data);
  }
  if (run.checkpoint || run.resumed) {
    POLYRANK_ASSIGN(state,
                    dataOf(run.options, *run.plan->plan, run.dataOrNull()));
    run.dataState = std::move(state);
  }
  if (run.resumed) {
    if (Result<void> same =
            continueData(run.options, *run.resumed, run.dataState);
        !same)
      return same.error();
    if (run.steps < run.stepsBefore())
      return Error{
          fmt::format("--steps {}: '{}' is of step {}, which is later; "
                      "--steps is the number of all steps, those "
                      "before the checkpoint included",
                      run.steps, run.resumed->path, run.stepsBefore())};
  }
  if (!run.data)
    return std::string(run.times ? "none is read (--rehearse)"
                                 : "the plan needs none");
  if (!run.options.outputs.empty()) {
    uint64_t samples = outputSamplesOf(run.options, *run.plan->plan, *run.data);
    run.outputs = outputArraysOf(*run.plan->plan, samples);
    const plan::Output *whole = findOutputWithoutBatch(*run.plan->plan);
    if (whole && samples > run.report.samplesPerStep)
      return Error{fmt::format(
          "--outputs: output '{}' has no batch, so that each batch of {} "
          "samples makes another one, and there are {} samples; give one "
          "batch, or --steps 1",
          whole->name()->str(), run.report.samplesPerStep, samples)};
    // Scalar outputs need no memory of their own.
    bool hasAny = std::any_of(
        run.plan->plan->programs()->begin(), run.plan->plan->programs()->end(),
        [](const plan::Program *each) { return each->outputs()->size() > 0; });
    if (!hasAny)
      return Error{"--outputs: the plan has no outputs"};
  }
  if (Result<void> done = checkEvaluation(run, whole); !done)
    return done.error();
  if (!whole) {
    // The values are checked before this run's log replaces an older one, and
    // before any step.
    if (Result<void> values = run.data->checkRanges(); !values)
      return values.error();
    return std::string();
  }
  if (run.data->isStream())
    return run.data->describe() + "; --check starts no feed";
  if (Result<void> values = run.data->checkAll(); !values)
    return values.error();
  uint64_t batch = run.report.samplesPerStep,
           samples = run.data->samples(splitOf(run.options, *run.plan->plan));
  return fmt::format(
      "{}; every value read; {} of {} are {:.2f} epochs", run.data->describe(),
      plural(run.steps, "step"), plural(batch, "sample"),
      static_cast<double>(run.steps) * static_cast<double>(batch) /
          static_cast<double>(samples));
}

} // namespace polyrank::runtime
