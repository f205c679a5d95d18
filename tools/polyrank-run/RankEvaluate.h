// A rank's part of an evaluation between two steps of training.

#pragma once

#include "runtime/device/cpu/CpuDevice.h"
#include "tools/polyrank-run/Evaluation.h"
#include "tools/polyrank-run/Rank.h"

#include <functional>
#include <string>
#include <string_view>

namespace polyrank::runtime {

/// What of the training an evaluation reads, and leaves as it is to the bit.
struct TrainingRank {
  const LoadedPlan &plan;
  RankProgram &program;
  const Weights &weights;
  Transport &transport;
  Group everyone;
  Device &device;
  /// Asked before each batch of the evaluation after a step: whether all ranks
  /// evaluate it, or all give the evaluation up, as the run ends.
  std::function<bool(uint64_t step)> mayEvaluate;
  /// Which files --init and the samples are, as the launcher found them.
  std::string init, samples;
};

/// Fails where a file is another one than the launcher found under its name, or
/// was written to since. `what` is the option, `launchers` what its identity
/// was; empty where it opened none.
Result<void> checkSameFile(const std::string &what, std::string_view launchers,
                           const Result<std::string> &found);

class RankEvaluation {
public:
  /// Called by all ranks, before the first step. `until` is what the
  /// evaluations before that came to.
  static Result<std::unique_ptr<RankEvaluation>>
  create(const RunOptions &options, const RankConnection &connection,
         const TrainingRank &training, const ManifestEvaluation &until);

  /// Evaluates all samples after step `step`, and reports what came out. Called
  /// by all ranks. Where these give it up nothing is reported, and the weights
  /// are as they were.
  Result<void> run(uint64_t step);
  /// The same on all ranks.
  const Patience &patience() const { return left; }
  /// eval_loss and so on, as far as this rank's program has them.
  const std::vector<std::pair<std::string, double>> &results() const {
    return last;
  }

private:
  RankEvaluation(const RunOptions &options, const RankConnection &connection,
                 const TrainingRank &training, const ManifestEvaluation &until)
      : options(options), connection(connection), training(training),
        left(options.patience, until) {}

  Result<void> loadPlan();
  /// False where it was given up.
  Result<bool> evaluate(RankProgram &program, uint64_t step,
                        EvaluationMeans &means);

  const RunOptions &options;
  const RankConnection &connection;
  TrainingRank training;
  Evaluation evaluation;
  Patience left;
  std::vector<std::pair<std::string, double>> last;
  std::span<std::byte> memory;
  // Of --eval-plan, in the order in which they need each other.
  std::unique_ptr<Transport> transport;
  std::unique_ptr<CpuDevice> device;
  std::unique_ptr<RankProgram> program;
  std::vector<std::byte> state; // of the training, while its plan evaluates
};

} // namespace polyrank::runtime
