// Opens and checks the parts of an evaluation, and combines its results.

#include "runtime/session/Evaluation.h"

#include "support/Names.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace polyrank::runtime {
namespace {

/// Returns the command that compiles an evaluating plan for this one.
std::string compileCommand(const plan::Plan &plan) {
  std::string mesh;
  for (const plan::Axis *axis : *plan.mesh())
    mesh += fmt::format("{}{}={}", mesh.empty() ? "" : ",",
                        axis->name()->string_view(), axis->size());
  return fmt::format(
      "polyrank-compile {} --mode forward --loss LOSS{}{}{} -o "
      "eval.plan, with the model exported for evaluation and "
      "the training plan's LOSS",
      plan.model() && plan.model()->size() ? plan.model()->str() : "MODEL",
      mesh.empty() ? "" : " --mesh " + mesh,
      plan.threads() > 1 ? fmt::format(" --threads {}", plan.threads()) : "",
      plan.denormals() == plan::Denormals::keep ? " --denormals keep" : "");
}

/// Returns true if any command reads this argument, or with `writes` writes it.
bool isUsed(const plan::Program &program, const plan::Argument &argument,
            bool writes) {
  const plan::BufferRef &buffer = *argument.buffer();
  auto isIt = [&](const plan::BufferRef &other, uint32_t iterations) {
    LoopReach reach = reachOf(other, iterations);
    return other.region() == buffer.region() &&
           other.offset() - reach.back < buffer.offset() + buffer.size() &&
           buffer.offset() < other.offset() + reach.ahead + other.size();
  };
  auto uses = [&](const plan::Command &command, uint32_t iterations) {
    if (const plan::Launch *launch = command.body_as_Launch())
      if (const auto *buffers = writes ? launch->outputs() : launch->inputs())
        for (const plan::BufferRef *each : *buffers)
          if (isIt(*each, iterations))
            return true;
    const plan::Copy *copy = command.body_as_Copy();
    return copy && isIt(writes ? *copy->output() : *copy->input(), iterations);
  };
  for (const plan::Segment *segment : *program.segments())
    if (segment->commands())
      for (const plan::Command *command : *segment->commands()) {
        if (uses(*command, 1))
          return true;
        if (const plan::Loop *loop = command->body_as_Loop())
          for (const plan::Command *each : *loop->commands())
            if (uses(*each, loop->count()))
              return true;
      }
  return false;
}

/// Fails for a training plan whose steps behave differently from inference.
Result<void> checkTrainingEvaluates(const LoadedPlan &training) {
  for (uint32_t number = 0; number < training.programs(); ++number)
    for (const plan::Argument *argument :
         *training.program(number).arguments()) {
      const char *reason = nullptr;
      // What a step changes and no optimizer does are running statistics.
      bool isTrained = argument->trainable() || argument->state_of();
      if (argument->role() == plan::Role::Seed &&
          isUsed(training.program(number), *argument, /*writes=*/false))
        reason = "draws random numbers (dropout)";
      else if (argument->view() && !isTrained &&
               isUsed(training.program(number), *argument, /*writes=*/true))
        reason = "normalises with the statistics of the batch";
      if (reason)
        return Error{fmt::format(
            "--eval-every: the training plan {} ('{}'), so it cannot evaluate; "
            "give a plan that can with --eval-plan: {}",
            reason, argument->name()->string_view(),
            compileCommand(*training.plan))};
    }
  return {};
}

Result<void> checkPlan(const LoadedPlan &training, const LoadedPlan &plan) {
  auto refuse = [&](const std::string &text) {
    return Error{fmt::format("--eval-plan '{}': {}; compile one: {}", plan.path,
                             text, compileCommand(*training.plan))};
  };
  if (plan.plan->mode() != plan::Mode::Forward)
    return refuse("is a training plan");
  int64_t ranks = Mesh(*training.plan).ranks(), own = Mesh(*plan.plan).ranks();
  if (own != ranks)
    return refuse(fmt::format("is for {} ranks, and the training plan for {}",
                              own, ranks));
  if (plan.plan->threads() != training.plan->threads())
    return refuse(fmt::format("is for {} threads per rank, and the training "
                              "plan for {}",
                              plan.plan->threads(), training.plan->threads()));
  // Both run on the same threads, which have one mode.
  if (plan.plan->denormals() != training.plan->denormals())
    return refuse(fmt::format("is compiled with --denormals {}, and the "
                              "training plan with --denormals {}",
                              EnumNameDenormals(plan.plan->denormals()),
                              EnumNameDenormals(training.plan->denormals())));
  for (uint32_t number = 0; number < plan.programs(); ++number)
    for (const plan::Output *output : *plan.program(number).outputs())
      if (output->kind() == plan::OutputKind::Metric)
        return {};
  return refuse("has no loss and no metric");
}

bool hasLoss(const plan::Plan &plan) {
  for (const plan::Program *program : *plan.programs())
    for (const plan::Output *output : *program->outputs())
      if (output->kind() == plan::OutputKind::Metric &&
          output->name()->string_view() == "loss")
        return true;
  return false;
}

} // namespace

bool drawsNumbers(const LoadedPlan &plan) {
  for (uint32_t number = 0; number < plan.programs(); ++number)
    for (const plan::Argument *argument : *plan.program(number).arguments())
      if (argument->role() == plan::Role::Seed &&
          isUsed(plan.program(number), *argument, /*writes=*/false))
        return true;
  return false;
}

Result<Evaluation> openEvaluation(const SessionOptions &options,
                                  const LoadedPlan &training, int evalPlan) {
  Evaluation evaluation;
  if (evalPlan >= 0) {
    POLYRANK_ASSIGN(loaded, loadPlan(evalPlan, options.evalPlan));
    if (Result<void> fits = checkPlan(training, loaded); !fits)
      return fits.error();
    SavedWeights what;
    what.state = options.evalEma ? "ema" : "";
    std::vector<SavedTensor> saved = savedTensorsOf(*training.plan, what);
    if (options.evalEma &&
        std::none_of(saved.begin(), saved.end(),
                     [](const SavedTensor &each) { return each.isState; }))
      return Error{"--eval-ema: the plan keeps no moving means of its weights; "
                   "compile it with --ema DECAY"};
    evaluation.plan.emplace(std::move(loaded));
    Result<WeightTransfer> transfer =
        WeightTransfer::prepare(training, *evaluation.plan, what);
    if (!transfer)
      return Error{"--eval-plan: " + transfer.error().message};
    evaluation.transfer.emplace(*std::move(transfer));
  } else if (Result<void> can = checkTrainingEvaluates(training); !can) {
    return can.error();
  }
  const plan::Plan &plan = evaluation.planOr(training);
  if (options.patience != 0 && !hasLoss(plan))
    return Error{"--patience looks at the loss, and the plan that evaluates "
                 "has none"};
  bool own = options.evalData.empty();
  POLYRANK_ASSIGN(source, openEvaluationData(options, plan));
  evaluation.data.emplace(std::move(source));
  evaluation.split = own ? Split::Holdout : Split::Train;
  return std::move(evaluation);
}

uint64_t evaluationMemoryOf(const Evaluation &evaluation) {
  return evaluation.transfer ? evaluation.transfer->memoryBytes() : 0;
}

EvaluationMeans::EvaluationMeans(const plan::Plan &plan) {
  for (const plan::Program *program : *plan.programs())
    for (const plan::Output *output : *program->outputs())
      if (output->kind() == plan::OutputKind::Metric) {
        std::string name = output->name()->str();
        if (output->geometric())
          geometric.insert(name);
        counts.insert(countName(name));
      }
}

void EvaluationMeans::add(const StepReport &batch, uint64_t count,
                          uint64_t size) {
  double share = static_cast<double>(count) / static_cast<double>(size);
  for (auto &[name, value] : batch.metrics) {
    if (name == "grad_norm")
      continue;
    auto mean = std::find_if(means.begin(), means.end(), [&](const Mean &each) {
      return each.name == name;
    });
    if (mean == means.end())
      mean = means.insert(means.end(), {name, 0, 0});
    if (counts.contains(name)) { // counts are sums
      mean->sum += value * share;
      mean->weight = 1;
      continue;
    }
    const double *targets = batch.targetsOf(name);
    double weight = targets ? *targets * share : static_cast<double>(count);
    if (weight == 0)
      continue; // a mean over nothing
    mean->sum += (geometric.contains(name) ? std::log(value) : value) * weight;
    mean->weight += weight;
  }
}

std::vector<std::pair<std::string, double>> EvaluationMeans::results() const {
  std::vector<std::pair<std::string, double>> results;
  for (const Mean &mean : means) {
    double value = mean.sum / mean.weight;
    results.emplace_back("eval_" + mean.name, geometric.contains(mean.name)
                                                  ? std::exp(value)
                                                  : value);
  }
  return results;
}

bool evaluatesAgain(const SessionOptions &options, const Manifest &resumed,
                    uint64_t steps) {
  return resumed.step != 0 && isEvaluated(options, resumed.step, steps) &&
         (!resumed.evaluation || resumed.evaluation->step < resumed.step);
}

void Patience::add(uint64_t step, double loss) {
  now.step = step;
  if (loss < now.bestLoss)
    now.bestLoss = loss, now.bestStep = step, now.without = 0;
  else
    ++now.without;
}

} // namespace polyrank::runtime
