// The life of a rank: it loads, steps, evaluates, saves and reports.

#include "runtime/session/Rank.h"

#include "runtime/session/RankCheckpoints.h"
#include "runtime/session/RankEvaluation.h"
#include "runtime/session/RankLoader.h"
#include "runtime/session/RankRecords.h"
#include "runtime/session/Stepper.h"
#include "runtime/session/WeightFiles.h"
#include "support/Failpoint.h"
#include "support/OutOfMemory.h"

#include <chrono>
#include <fmt/format.h>
#include <new>
#include <system_error>

namespace polyrank::runtime {
namespace {

class Rank {
public:
  explicit Rank(std::unique_ptr<LoadedRank> loaded)
      : rank(std::move(loaded)), checks(*rank), records(*rank),
        stepper(*rank, rank->facts().step), steps(rank->steps) {}

  /// Completes what RankLoader has loaded in these times.
  Result<void> prepare(ReadyReport times);
  Result<void> run();

private:
  uint64_t stepsBefore() const { return rank->facts().step; }
  /// Does what is due before the first step: the earlier run may have ended
  /// before it was saved elsewhere, while it evaluated, or with its patience
  /// exhausted.
  Result<void> begin();
  /// Runs the steps, and what follows each. Returns true if the launcher has
  /// asked all ranks to end, which is done.
  Result<bool> runSteps();
  Result<void> evaluate(uint64_t step);
  /// Makes `step` the last one if patience is exhausted.
  Result<void> endWithoutPatience(uint64_t step);
  Result<void> endEarly(uint64_t done);
  /// Saves after the last step that ran.
  Result<void> saveAll();
  /// Ends a run whose next samples cannot be read.
  Result<void> endWithoutSamples();

  std::unique_ptr<LoadedRank> rank;
  FiniteChecks checks;
  RankRecords records;
  Stepper stepper;
  std::unique_ptr<RankCheckpoints> checkpoints; // with --checkpoint
  std::unique_ptr<RankEvaluation> evaluation;   // with --eval-every
  uint64_t steps; // of the run, until patience or bad samples end it earlier
};

Result<void> Rank::prepare(ReadyReport times) {
  auto start = std::chrono::steady_clock::now();
  if (!rank->options.checkpoints.folder.empty()) {
    POLYRANK_ASSIGN(created, RankCheckpoints::create(
                                 *rank, [this] { return stepper.finish(); }));
    checkpoints = std::move(created);
  }
  times.weightsSeconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  if (rank->options.evalEvery != 0) {
    POLYRANK_ASSIGN(created, RankEvaluation::create(*rank, [this] {
                      if (checkpoints)
                        checkpoints->poll();
                    }));
    evaluation = std::move(created);
  }
  if (Result<void> all = rank->awaitAll(); !all)
    return all;
  rank->reportOnce(times);
  return {};
}

Result<void> Rank::run() {
  if (Result<void> measured = records.measureRates(); !measured)
    return measured;
  records.start();
  if (Result<void> begun = begin(); !begun)
    return begun;
  POLYRANK_ASSIGN(isStopped, runSteps());
  if (isStopped)
    return {};
  if (Result<void> saved = saveAll(); !saved)
    return saved;
  if (stepper.badSamples())
    return endWithoutSamples();
  if (Result<void> measured = records.measureRates(); !measured)
    return measured;
  // No rank leaves, and unmaps its arena, before all are done.
  uint64_t outputs = rank->outputs.empty() ? 0 : rank->window.data().size();
  if (Result<void> all = rank->job->gather(0, outputs); !all)
    return all;
  failpoint("end.before");
  records.reportUse();
  return records.write(steps);
}

Result<void> Rank::begin() {
  if (rank->facts().savesAtOnce)
    if (Result<void> saved = checkpoints->save(steps); !saved)
      return saved;
  if (!evaluation)
    return {};
  return rank->facts().evaluatesAgain ? evaluate(stepsBefore())
                                      : endWithoutPatience(stepsBefore());
}

Result<bool> Rank::runSteps() {
  for (uint64_t step = stepsBefore(); step < steps; ++step) {
    if (!rank->job->mayBegin(step + 1)) {
      if (Result<void> ended = endEarly(step); !ended)
        return ended.error();
      return true;
    }
    rank->page->begin(step + 1);
    failpoint("step.before");
    if (Result<void> done = stepper.run(step); !done)
      return done.error();
    if (stepper.badSamples() || stepper.hasEnded()) {
      steps = step;
      break;
    }
    // The checkpoint is first, so that a run that ends while it evaluates has
    // it.
    if (checkpoints)
      if (Result<void> saved = checkpoints->after(step + 1, steps); !saved)
        return saved.error();
    if (evaluation && isEvaluated(rank->options, step + 1, steps)) {
      if (Result<void> over = stepper.finish(); !over)
        return over.error();
      if (Result<void> done = evaluate(step + 1); !done)
        return done.error();
    }
    failpoint("step.after");
  }
  if (Result<void> over = stepper.finish(); !over)
    return over.error();
  // An evaluation follows the last step, which nobody knew until now.
  if (stepper.hasEnded() && evaluation && steps > stepsBefore() &&
      !isEvaluated(rank->options, steps, SessionOptions::stepsUntilTheEnd))
    if (Result<void> done = evaluate(steps); !done)
      return done.error();
  return false;
}

Result<void> Rank::evaluate(uint64_t step) {
  if (Result<void> done = evaluation->run(step); !done)
    return done;
  return endWithoutPatience(step);
}

Result<void> Rank::endWithoutPatience(uint64_t step) {
  const Patience &patience = evaluation->patience();
  if (!patience.isOver() || step >= steps)
    return {};
  rank->reportOnce(PatienceReport{step, patience.state().bestStep,
                                  patience.state().bestLoss});
  steps = step;
  return checkpoints && !checkpoints->isSaved(step) && stepsBefore() != step
             ? checkpoints->save(step)
             : Result<void>();
}

Result<void> Rank::endEarly(uint64_t done) {
  if (Result<void> over = stepper.finish(); !over)
    return over;
  if (checkpoints) {
    if (!checkpoints->isSaved(done))
      if (Result<void> saved = checkpoints->save(done); !saved)
        return saved;
    checkpoints->finish();
  }
  if (Result<void> all = rank->awaitAll(); !all)
    return all;
  records.reportUse();
  rank->connection.stopped(done);
  return {};
}

Result<void> Rank::saveAll() {
  if (Result<void> finite = checks.checkSaved(); !finite)
    return finite;
  // If nobody knew that it is the last step, no checkpoint has followed it.
  if ((stepper.badSamples() || stepper.hasEnded()) && checkpoints &&
      steps > stepsBefore() && !checkpoints->isSaved(steps))
    if (Result<void> saved = checkpoints->save(steps); !saved)
      return saved;
  if (Result<void> written = writeWeightFiles(*rank); !written)
    return written;
  if (checkpoints)
    checkpoints->finish();
  return {};
}

Result<void> Rank::endWithoutSamples() {
  if (rank->options.savesAny())
    rank->reportOnce(KeptMessage{steps});
  failpoint("kept.after");
  if (Result<void> all = rank->awaitAll(); !all)
    return all;
  return *stepper.badSamples();
}

Result<void> runRank(const SessionOptions &options,
                     const RankConnection &connection, const RankParts &parts) {
  failpoint("load.before");
  RankLoader loader(options, connection, parts);
  POLYRANK_ASSIGN(loaded, loader.load());
  Rank rank(std::move(loaded));
  if (Result<void> prepared = rank.prepare(loader.times()); !prepared)
    return prepared;
  failpoint("load.after");
  return rank.run();
}

} // namespace

std::string describe(const std::exception &exception) {
  if (dynamic_cast<const std::bad_alloc *>(&exception))
    return outOfMemoryText;
  if (dynamic_cast<const std::system_error *>(&exception))
    return fmt::format("the system gives no more threads or memory (ulimit -u "
                       "and -v, or the control group's pids.max): {}",
                       exception.what());
  return exception.what();
}

int rankMain(const SessionOptions &options, const RankConnection &connection,
             const RankParts &parts) {
  try {
    connection.endWithLauncher();
    Result<void> result = runRank(options, connection, parts);
    return result ? connection.finish() : connection.fail(result.error());
  } catch (const std::exception &exception) {
    return connection.fail({describe(exception), Error::Fault::Rank});
  }
}

} // namespace polyrank::runtime
