// A rank's part of an evaluation between two steps of training.

#pragma once

#include "runtime/device/Device.h"
#include "runtime/session/Evaluation.h"
#include "runtime/session/Rank.h"

#include <functional>
#include <string>
#include <string_view>

namespace polyrank::runtime {

/// The parts of the training that an evaluation uses, and leaves unchanged to
/// the bit.
struct TrainingRank {
  const LoadedPlan &plan;
  RankProgram &program;
  const Weights &weights;
  JobMember &job;
  Device &device;
  /// Called before each batch of the evaluation after a step. Returns true if
  /// all ranks evaluate the batch, false if all abandon the evaluation because
  /// the run ends.
  std::function<bool(uint64_t step)> mayEvaluate;
  /// The identities of the files of --init and of the samples that the launcher
  /// found.
  std::string init, samples;
};

/// Fails if a file is not the one that the launcher found under its name, or
/// was written to since. `what` is the option, `launchers` the identity that
/// the launcher found; empty if it opened none.
Result<void> checkSameFile(const std::string &what, std::string_view launchers,
                           const Result<std::string> &found);

class RankEvaluation {
public:
  /// Called by all ranks, before the first step. `until` is the result of the
  /// evaluations before it.
  static Result<std::unique_ptr<RankEvaluation>>
  create(const SessionOptions &options, const RankConnection &connection,
         const TrainingRank &training, const ManifestEvaluation &until);

  /// Evaluates all samples after step `step`, and reports the results. Called
  /// by all ranks. If they abandon the evaluation nothing is reported, and the
  /// weights are unchanged.
  Result<void> run(uint64_t step);
  /// The same on all ranks.
  const Patience &patience() const { return left; }
  /// eval_loss and so on, those that this rank's program has.
  const std::vector<std::pair<std::string, double>> &results() const {
    return last;
  }

private:
  RankEvaluation(const SessionOptions &options,
                 const RankConnection &connection, const TrainingRank &training,
                 const ManifestEvaluation &until)
      : options(options), connection(connection), training(training),
        left(options.patience, until) {}

  Result<void> loadPlan();
  /// Returns false if it was abandoned.
  Result<bool> evaluate(RankProgram &program, uint64_t step,
                        EvaluationMeans &means);

  const SessionOptions &options;
  const RankConnection &connection;
  TrainingRank training;
  Evaluation evaluation;
  Patience left;
  std::vector<std::pair<std::string, double>> last;
  Window window;                      // the loss, and then weights on their way
  std::optional<WindowRounds> rounds; // of the weights
  // For --eval-plan, each needed by the next.
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Device> device;
  std::unique_ptr<RankProgram> program;
  /// Without a plan for evaluating: memory for the state of the training, which
  /// an evaluation copies and restores.
  std::optional<DeviceMemory> state;
};

} // namespace polyrank::runtime
