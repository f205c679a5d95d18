// Evaluates on the training ranks.

#include "runtime/session/RankEvaluate.h"

#include "runtime/comm/shm/ShmMemory.h"
#include "runtime/device/MakeDevice.h"
#include "support/Failpoint.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <fmt/format.h>

namespace polyrank::runtime {

Result<void> checkSameFile(const std::string &what, std::string_view launchers,
                           const Result<std::string> &found) {
  if (!found)
    return found.error();
  if (launchers.empty() || *found == launchers)
    return {};
  return Error{fmt::format("{}: the file changed while the run started: this "
                           "rank finds another one than the launcher found, or "
                           "one that was written to since; start again when "
                           "nobody writes it",
                           what),
               Error::Fault::Rank};
}

Result<std::unique_ptr<RankEvaluation>> RankEvaluation::create(
    const SessionOptions &options, const RankConnection &connection,
    const TrainingRank &training, const ManifestEvaluation &until) {
  std::unique_ptr<RankEvaluation> created(
      new RankEvaluation(options, connection, training, until));
  POLYRANK_ASSIGN(opened,
                  openEvaluation(options, training.plan,
                                 connection.descriptors()[evalPlanFile]));
  created->evaluation = std::move(opened);
  if (Result<void> same = checkSameFile(
          fmt::format("--eval-data {}", fmt::join(options.evalData, ",")),
          training.samples, identityOf(*created->evaluation.data));
      !same)
    return same.error();
  uint64_t bytes = evaluationMemoryOf(created->evaluation);
  POLYRANK_ASSIGN(window, Window::map(connection.descriptors()[evalWindowFile],
                                      bytes, "an evaluation"));
  created->window = std::move(window);
  created->rounds.emplace(created->window.data().subspan(evaluationPage), 1,
                          training.job);
  if (created->evaluation.plan)
    if (Result<void> loaded = created->loadPlan(); !loaded)
      return loaded.error();
  if (!created->evaluation.plan) {
    POLYRANK_ASSIGN(allocated, training.program.allocateStateCopy());
    created->state.emplace(std::move(allocated));
  }
  return std::move(created);
}

Result<void> RankEvaluation::loadPlan() {
  const LoadedPlan &plan = *evaluation.plan;
  POLYRANK_ASSIGN(
      attached,
      shm::attach(transportFiles(connection, training.job.worldSize(), 1),
                  training.job, plan.bytes.hash));
  transport = std::move(attached);
  uint32_t number = programOf(*plan.plan, Mesh(*plan.plan), connection.rank());
  POLYRANK_ASSIGN(made, makeDevice(*plan.plan, plan.program(number)));
  device = std::move(made);
  POLYRANK_ASSIGN(created, RankProgram::create(*plan.plan, *device, *transport,
                                               options.seed));
  program = std::move(created);
  // Weights that the training does not hold keep their values in the file.
  POLYRANK_ASSIGN(weights, Weights::open(plan, options.init));
  if (Result<void> same =
          weights.checkDigests(training.job.rank(), training.job.worldSize());
      !same)
    return same;
  std::vector<StoredSource> sources = weights.sources();
  for (StoredSource &source : sources)
    if (source.read)
      source.read = [this, read = source.read](uint64_t offset, void *into,
                                               uint64_t length) {
        training.job.beat();
        return read(offset, into, length);
      };
  if (Result<void> loaded = program->loadParameters(sources); !loaded)
    return loaded;
  return checkSameFile("--init " + options.init, training.init,
                       weights.identity());
}

Result<void> RankEvaluation::run(uint64_t step) {
  failpoint("evaluate.before");
  auto start = std::chrono::steady_clock::now();
  EvaluationMeans means(evaluation.planOr(training.plan));
  if (program) {
    if (Result<void> passed = evaluation.transfer->run(
            training.plan, training.program, training.weights, *program,
            training.job, *rounds,
            [&](int64_t range, int64_t grain, const RangeBody &body) {
              training.device.parallelFor(range, grain, body);
            });
        !passed)
      return passed;
  } else {
    if (Result<void> copied = training.program.copyState(*state); !copied)
      return copied;
  }
  // The commands of another plan are no position in the training's.
  training.job.setBeside(program != nullptr);
  Result<bool> evaluated =
      evaluate(program ? *program : training.program, step, means);
  training.job.setBeside(false);
  POLYRANK_ASSIGN(isWhole, std::move(evaluated));
  if (!isWhole)
    return {};
  last = means.results();
  const RankProgram &measured = program ? *program : training.program;
  bool reports = connection.rank() == measured.firstRank();
  if (reports) {
    nlohmann::json metrics = nlohmann::json::array();
    for (auto &[name, value] : last)
      metrics.push_back({name, fmt::format("{}", value)});
    connection.report(
        {{"eval",
          {{"step", step},
           {"samples", evaluation.data->samples(evaluation.split)},
           {"seconds", std::chrono::duration<double>(
                           std::chrono::steady_clock::now() - start)
                           .count()},
           {"metrics", metrics}}}});
  }
  failpoint("evaluate.after");
  if (options.patience == 0)
    return {};
  // In a pipeline only one program has the loss; all ranks must know it.
  if (reports)
    for (auto &[name, value] : last)
      if (name == "eval_loss")
        std::memcpy(window.data().data(), &value, sizeof(value));
  if (Result<void> all = training.job.barrier(); !all)
    return all;
  double loss = 0;
  std::memcpy(&loss, window.data().data(), sizeof(loss));
  // All ranks read the loss before the next one is written.
  if (Result<void> all = training.job.barrier(); !all)
    return all;
  left.add(step, loss);
  return {};
}

Result<bool> RankEvaluation::evaluate(RankProgram &evaluated, uint64_t step,
                                      EvaluationMeans &means) {
  const DataSource &data = *evaluation.data;
  uint64_t size = evaluation.planOr(training.plan).samples_per_step();
  for (const Batch &batch : data.batchesOfAll(evaluation.split)) {
    training.job.beat();
    failpoint("evaluate.batch");
    if (!training.mayEvaluate(step))
      return false;
    if (Result<void> filled = evaluated.fillInputs(data, batch); !filled)
      return Error{fmt::format("evaluating after step {}: {}", step,
                               filled.error().message),
                   filled.error().fault};
    if (auto ran = evaluated.runStep(step); !ran)
      return ran.error();
    StepReport report;
    POLYRANK_ASSIGN(metrics, evaluated.metrics());
    for (const Metric &metric : metrics)
      report.metrics.emplace_back(metric.name, metric.value);
    means.add(report, batch.count, size);
    // The next batch and the next step must see the same weights.
    if (!program)
      if (Result<void> restored = evaluated.restoreState(*state); !restored)
        return restored.error();
  }
  return true;
}

} // namespace polyrank::runtime
