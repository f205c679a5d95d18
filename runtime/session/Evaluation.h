// The evaluations of a run while it trains: the plan, the samples, the means.

#pragma once

#include "runtime/checkpoint/Manifest.h"
#include "runtime/exec/TransferWeights.h"
#include "runtime/session/SessionData.h"

#include <set>

namespace polyrank::runtime {

/// What the launcher and all ranks open for --eval-every.
struct Evaluation {
  /// The plan of --eval-plan; without it the training plan evaluates.
  std::optional<LoadedPlan> plan;
  std::optional<WeightTransfer> transfer;
  std::optional<DataSource> data;
  Split split = Split::Train; // of `data`

  const plan::Plan &planOr(const LoadedPlan &training) const {
    return plan ? *plan->plan : *training.plan;
  }
};

/// Opens what an evaluation needs. `evalPlan` is the descriptor of --eval-plan,
/// or -1 without it. Fails if that plan is not for the same ranks and threads,
/// or not of the same model; without it, if the training plan draws random
/// numbers or normalises with batch statistics.
Result<Evaluation> openEvaluation(const SessionOptions &options,
                                  const LoadedPlan &training, int evalPlan);

/// True if any program of the plan draws random numbers, as dropout does.
bool drawsNumbers(const LoadedPlan &plan);

/// The memory that ranks map for the transfer of weights to an evaluating plan;
/// without one there is none.
uint64_t evaluationMemoryOf(const Evaluation &evaluation);

/// True if an evaluation follows this step, counted from 1.
inline bool isEvaluated(const SessionOptions &options, uint64_t step,
                        uint64_t steps) {
  return options.evalEvery != 0 &&
         (step % options.evalEvery == 0 || step == steps);
}

/// Means over batches in which each sample counts once: over targets if a
/// metric has a count of them, else over samples. Perplexities have geometric
/// means.
class EvaluationMeans {
public:
  explicit EvaluationMeans(const plan::Plan &plan);
  /// Adds a batch of `count` samples that occur `size / count` times each.
  void add(const StepReport &batch, uint64_t count, uint64_t size);
  /// Returns eval_loss and so on, without metrics that are no result
  /// (grad_norm).
  std::vector<std::pair<std::string, double>> results() const;

private:
  struct Mean {
    std::string name;
    double sum = 0, weight = 0;
  };
  std::set<std::string> geometric, counts;
  std::vector<Mean> means;
};

/// Returns true if the evaluation after the step from which a run resumes is
/// still to be made, before the first step: the earlier run ended before it.
bool evaluatesAgain(const SessionOptions &options, const Manifest &resumed,
                    uint64_t steps);

/// Decides whether a training still improves. NaN is never an improvement.
class Patience {
public:
  /// With 0 the patience is unlimited. `until` is the result of the evaluations
  /// of the earlier run.
  explicit Patience(uint64_t evaluations, const ManifestEvaluation &until = {})
      : most(evaluations), now(until) {}
  void add(uint64_t step, double loss);
  /// True if `evaluations` evaluations in a row were not better than the best
  /// one before them.
  bool isOver() const { return most != 0 && now.without >= most; }
  const ManifestEvaluation &state() const { return now; }

private:
  uint64_t most;
  ManifestEvaluation now;
};

} // namespace polyrank::runtime
