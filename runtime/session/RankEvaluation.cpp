// Evaluates on the training ranks.

#include "runtime/session/RankEvaluation.h"

#include "runtime/device/MakeDevice.h"
#include "runtime/session/FiniteChecks.h"
#include "runtime/session/SessionJobs.h"
#include "support/Failpoint.h"

#include <bit>
#include <chrono>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace polyrank::runtime {

Result<std::unique_ptr<RankEvaluation>>
RankEvaluation::create(LoadedRank &training, std::function<void()> onBatch) {
  const SessionOptions &options = training.options;
  const std::vector<int> &files = training.connection.descriptors();
  std::unique_ptr<RankEvaluation> created(
      new RankEvaluation(training, std::move(onBatch)));
  POLYRANK_ASSIGN(
      opened, openEvaluation(options, *training.loaded, files[evalPlanFile]));
  created->evaluation = std::move(opened);
  if (Result<void> same = checkSameFile(
          fmt::format("--eval-data {}", fmt::join(options.evalData, ",")),
          training.facts().evaluated, identityOf(*created->evaluation.data));
      !same)
    return same.error();
  if (uint64_t bytes = evaluationMemoryOf(created->evaluation)) {
    POLYRANK_ASSIGN(mapped,
                    Window::map(files[evalWindowFile], bytes, "an evaluation"));
    created->window = std::move(mapped);
  }
  created->rounds.emplace(created->window.data(), 1, *training.job);
  if (created->evaluation.plan) {
    if (Result<void> loaded = created->loadPlan(); !loaded)
      return loaded.error();
  } else {
    POLYRANK_ASSIGN(allocated, training.program->allocateStateCopy());
    created->state.emplace(std::move(allocated));
  }
  return std::move(created);
}

Result<void> RankEvaluation::loadPlan() {
  const SessionOptions &options = training.options;
  const LoadedPlan &plan = *evaluation.plan;
  POLYRANK_ASSIGN(attached, training.parts.attachCommunicator(
                                training.connection, *training.job, plan,
                                /*evaluates=*/true));
  communicator = std::move(attached);
  uint32_t number = programOf(*plan.plan, Mesh(*plan.plan), training.rank());
  // Both plans have as many threads, and treat denormals alike.
  communicator->setParallelFor(training.parallelFor());
  POLYRANK_ASSIGN(made, training.parts.makeDevice(
                            *plan.plan, plan.program(number), training.team));
  device = std::move(made);
  POLYRANK_ASSIGN(created, RankProgram::create(*plan.plan, *device,
                                               *communicator, options.seed));
  program = std::move(created);
  // Weights that the training does not hold keep their values in the file.
  POLYRANK_ASSIGN(weights, Weights::open(plan, options.init));
  if (Result<void> same =
          weights.checkDigests(training.job->rank(), training.job->worldSize());
      !same)
    return same;
  if (Result<void> loaded =
          program->loadParameters(beating(weights.sources(), *training.job));
      !loaded)
    return loaded;
  return checkSameFile("--init " + options.init, training.facts().init,
                       weights.identity());
}

Result<void> RankEvaluation::run(uint64_t step) {
  failpoint("evaluate.before");
  auto start = std::chrono::steady_clock::now();
  EvaluationMeans means(evaluation.planOr(*training.loaded));
  if (Result<void> begun = begin(); !begun)
    return begun;
  // The commands of another plan are no position in the training's.
  training.job->setBeside(program != nullptr);
  Result<bool> done = evaluate(step, means);
  training.job->setBeside(false);
  POLYRANK_ASSIGN(isWhole, std::move(done));
  if (!isWhole)
    return {};
  Results results = means.results();
  if (reports()) {
    EvaluationReport report;
    report.step = step;
    report.samples = evaluation.data->samples(evaluation.split);
    report.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
            .count();
    report.metrics = results;
    training.report(report);
  }
  failpoint("evaluate.after");
  if (training.options.patience == 0)
    return {};
  POLYRANK_ASSIGN(loss, shareLoss(results));
  left.add(step, loss);
  return {};
}

Result<void> RankEvaluation::begin() {
  if (program)
    return evaluation.transfer->run(*training.loaded, *training.program,
                                    *training.weights, *program, *training.job,
                                    *rounds, training.parallelFor());
  return training.program->copyState(*state);
}

Result<bool> RankEvaluation::evaluate(uint64_t step, EvaluationMeans &means) {
  const DataSource &data = *evaluation.data;
  uint64_t size = evaluation.planOr(*training.loaded).samples_per_step();
  std::vector<Batch> batches = data.batchesOfAll(evaluation.split);
  for (size_t b = 0; b < batches.size(); ++b) {
    const Batch &batch = batches[b];
    training.beat();
    failpoint("evaluate.batch");
    if (!mayEvaluate(step))
      return false;
    if (Result<void> filled = evaluated().fillInputs(data, batch); !filled)
      return Error{fmt::format("evaluating after step {}: {}", step,
                               filled.error().message),
                   filled.error().fault};
    if (b + 1 < batches.size())
      evaluated().readAhead(data, batches[b + 1]);
    if (auto ran = evaluated().runStep(step); !ran)
      return ran.error();
    StepReport report;
    if (Result<void> read = readMetrics(evaluated(), report); !read)
      return read.error();
    means.add(report, batch.count, size);
    // The next batch and the next step must see the same weights.
    if (!program)
      if (Result<void> restored = evaluated().restoreState(*state); !restored)
        return restored.error();
  }
  return true;
}

bool RankEvaluation::mayEvaluate(uint64_t step) {
  onBatch();
  // A page of one machine cannot tell the ranks of others where to end, so the
  // ranks of several end after the evaluation.
  if (!training.job->isShared() && training.job->isClosedBefore(step + 1))
    training.page->batches().close();
  return training.page->batches().mayBegin(++begunBatches);
}

Result<double> RankEvaluation::shareLoss(const Results &results) {
  double loss = 0;
  if (reports())
    for (auto &[name, value] : results)
      if (name == "eval_loss")
        loss = value;
  POLYRANK_ASSIGN(losses, training.exchange(std::bit_cast<uint64_t>(loss)));
  return std::bit_cast<double>(
      losses[static_cast<size_t>(evaluated().firstRank())]);
}

} // namespace polyrank::runtime
