// What a run evaluates with while it trains: the plan, the samples, the means.

#pragma once

#include "runtime/checkpoint/Manifest.h"
#include "runtime/exec/TransferWeights.h"
#include "tools/polyrank-run/Options.h"

#include <set>

namespace polyrank::runtime {

/// What launcher and ranks open alike for --eval-every.
struct Evaluation {
  /// Of --eval-plan; else the training plan evaluates.
  std::optional<LoadedPlan> plan;
  std::optional<WeightTransfer> transfer;
  std::optional<DataSource> data;
  Split split = Split::Train; // of `data`

  const plan::Plan &planOr(const LoadedPlan &training) const {
    return plan ? *plan->plan : *training.plan;
  }
};

/// Opens it, where the training plan is loaded already. `evalPlan` is the
/// descriptor of --eval-plan, or -1 where there is none. Refused is a plan that
/// is not for the same ranks and threads, or not of the same model; without one
/// a training plan that draws random numbers or normalises with the batch.
Result<Evaluation> openEvaluation(const RunOptions &options,
                                  const LoadedPlan &training, int evalPlan);

/// Tells the files of its samples from all others, in 32 hex digits.
Result<std::string> identityOf(const Evaluation &evaluation);

/// Whether any program of the plan draws random numbers, as dropout does.
bool drawsNumbers(const LoadedPlan &plan);

/// The memory that ranks map for it: a page in which they tell each other the
/// loss, and behind it what weights are passed on in.
inline constexpr uint64_t evaluationPage = 4096;
uint64_t evaluationMemoryOf(const Evaluation &evaluation);

/// Whether samples are evaluated after this step, from 1.
inline bool isEvaluated(const RunOptions &options, uint64_t step,
                        uint64_t steps) {
  return options.evalEvery != 0 &&
         (step % options.evalEvery == 0 || step == steps);
}

/// Means over batches of which each sample counts once: over targets where a
/// metric has a count of them, else over samples; perplexities geometrically.
class EvaluationMeans {
public:
  explicit EvaluationMeans(const plan::Plan &plan);
  /// A batch of `count` samples that stand `size / count` times each.
  void add(const StepReport &batch, uint64_t count, uint64_t size);
  /// eval_loss and so on, without what is no result (grad_norm).
  std::vector<std::pair<std::string, double>> results() const;

private:
  struct Mean {
    std::string name;
    double sum = 0, weight = 0;
  };
  std::set<std::string> geometric, counts;
  std::vector<Mean> means;
};

/// Whether the samples are to be evaluated, before any step, after the one that
/// a run goes on from: a run that ended before that was done left it.
bool evaluatesAgain(const RunOptions &options, const Manifest &resumed,
                    uint64_t steps);

/// Does training get better? NaN never is.
class Patience {
public:
  /// 0: for ever. `until` is what the evaluations of the run before came to.
  explicit Patience(uint64_t evaluations, const ManifestEvaluation &until = {})
      : most(evaluations), now(until) {}
  void add(uint64_t step, double loss);
  /// Whether so many evaluations in a row have not been better than the best
  /// before them.
  bool isOver() const { return most != 0 && now.without >= most; }
  const ManifestEvaluation &state() const { return now; }

private:
  uint64_t most;
  ManifestEvaluation now;
};

} // namespace polyrank::runtime
