// A rank's part of an evaluation between two steps of training.

#pragma once

#include "runtime/session/Evaluation.h"
#include "runtime/session/LoadedRank.h"

#include <functional>
#include <memory>

namespace polyrank::runtime {

/// Evaluates with the programs of the training, which it leaves unchanged to
/// the bit, or with those of an evaluating plan on the same processes.
class RankEvaluation {
public:
  /// Called by all ranks, before the first step. `onBatch` is called before
  /// each batch.
  static Result<std::unique_ptr<RankEvaluation>>
  create(LoadedRank &training, std::function<void()> onBatch);

  /// Evaluates all samples after step `step`, and reports the results. Called
  /// by all ranks. If they abandon the evaluation because the run ends, nothing
  /// is reported, and the weights are unchanged.
  Result<void> run(uint64_t step);
  /// The same on all ranks.
  const Patience &patience() const { return left; }

private:
  using Results = std::vector<std::pair<std::string, double>>;

  RankEvaluation(LoadedRank &training, std::function<void()> onBatch)
      : training(training), onBatch(std::move(onBatch)),
        left(training.options.patience, training.facts().evaluation) {}

  Result<void> loadPlan();
  /// Brings the training's weights to the program that evaluates.
  Result<void> begin();
  /// Evaluates the batches. Returns false if the evaluation is abandoned.
  Result<bool> evaluate(uint64_t step, EvaluationMeans &means);
  /// Returns true if all ranks evaluate the next batch of the evaluation after
  /// this step, false if all abandon it because the run ends.
  bool mayEvaluate(uint64_t step);
  /// Gives the loss to all ranks: in a pipeline only one program has it.
  Result<double> shareLoss(const Results &results);
  RankProgram &evaluated() { return program ? *program : *training.program; }
  bool reports() { return training.rank() == evaluated().firstRank(); }

  LoadedRank &training;
  std::function<void()> onBatch;
  Evaluation evaluation;
  Patience left;
  uint64_t begunBatches = 0; // of all evaluations, reached by this rank
  Window window;             // of weights on their way, with --eval-plan
  std::optional<WindowRounds> rounds; // of the weights
  // For --eval-plan, each needed by the next.
  std::unique_ptr<Device> device;
  std::unique_ptr<Communicator> communicator;
  std::unique_ptr<RankProgram> program;
  /// Without a plan for evaluating: memory for the state of the training, which
  /// an evaluation copies and restores.
  std::optional<DeviceMemory> state;
};

} // namespace polyrank::runtime
