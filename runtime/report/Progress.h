// What the user sees while a plan runs: a progress line, a log, a summary.

#pragma once

#include "runtime/plan/PlanReport.h"
#include "runtime/report/TensorBoard.h"
#include "support/Result.h"

#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

namespace polyrank::runtime {

/// How long one rank took for a step. Waiting, for other ranks, is a part of
/// communication; what the step has besides is reading samples, and reports.
struct RankStep {
  uint64_t step = 0; // from 1
  double seconds = 0, computeSeconds = 0, communicationSeconds = 0,
         waitingSeconds = 0;
  uint64_t residentBytes = 0; // with what it maps of its peers' memory

  /// Without waiting for other ranks.
  double busySeconds() const { return seconds - waitingSeconds; }
};

/// The ranks that waited least and most: for the one the others waited.
struct RankSpread {
  int slowest = 0, fastest = 0;
  RankStep ofSlowest, ofFastest;
  uint64_t residentBytes = 0; // of the rank that has most
};

/// One step, as the first rank of each program reports it.
struct StepReport {
  uint64_t step = 0; // from 1
  double seconds = 0;
  double communicationShare = 0;
  std::vector<std::pair<std::string, double>> metrics, learningRates;
  std::optional<RankSpread> spread; // where all ranks have said
  /// Of the rows of the batch, the share that are samples which no earlier row
  /// has: samples that make no whole batch stand in it several times each.
  double share = 1;

  /// Of a metric that there is.
  const double *metric(std::string_view name) const;
  /// Over how many targets that metric is a mean; null where it does not say.
  const double *targetsOf(std::string_view name) const;
  /// Whether the metric is the number of targets of another one.
  bool isCount(std::string_view name) const;
  /// Makes counts those of samples, of which each counts once.
  void countOnce();
  /// Without a target that counts, the loss or a term of it is a mean of
  /// nothing: NaN, and no gradient comes from it.
  bool hasTargets() const;
  /// The first metric that is such a mean of nothing.
  std::string_view withoutTargets() const;
  /// Where there are targets.
  bool lossIsNan() const;

  /// What the first rank of another program says of the same step: the longer
  /// time, and what is not known yet.
  void add(const StepReport &other);
};

nlohmann::json toJson(const StepReport &step);
StepReport stepFromJson(const nlohmann::json &json);

/// What came before the first step, as a rank reports it: the arena's pages
/// were touched, the weights were read.
struct ReadyReport {
  double memorySeconds = 0, weightsSeconds = 0;
};

nlohmann::json toJson(const ReadyReport &ready);
ReadyReport readyFromJson(const nlohmann::json &json);

/// How far the weights are saved, as a rank reports it.
struct SaveReport {
  std::string path;
  uint64_t done = 0, bytes = 0;
  double seconds = 0; // when the file is complete
};

nlohmann::json toJson(const SaveReport &saving);
SaveReport saveFromJson(const nlohmann::json &json);

/// A checkpoint that is whole.
struct CheckpointReport {
  uint64_t step = 0;
  std::string path;
  uint64_t bytes = 0;
  /// Of the slowest rank: while the training stood still for the copy, and
  /// until everything was durable, while it went on.
  double copySeconds = 0, writeSeconds = 0;
};

/// What came out of an evaluation, as the first rank of each program reports
/// it.
struct EvaluationReport {
  uint64_t step = 0, samples = 0;
  double seconds = 0;
  std::vector<std::pair<std::string, double>> metrics; // eval_loss ..

  /// What another program's first rank says of the same one.
  void add(const EvaluationReport &other);
};
EvaluationReport evaluationFromJson(const nlohmann::json &json);

struct ProgressOptions {
  bool quiet = false;
  std::string log;            // path of the JSON lines; empty: none
  std::string tensorboard;    // folder of event files; empty: none
  nlohmann::ordered_json run; // the log's first record; null: none
  uint64_t steps = 0;
  /// That were done when the run began: it goes on, log and events of later
  /// steps are dropped, and those before stay. 0: both begin anew.
  uint64_t stepsBefore = 0;
  /// The evaluation after the last of these steps is made again.
  bool evaluatesAgain = false;
  /// A NaN loss ends the run (of training) or is its result (forward).
  bool endsAtNan = false;
  /// Nothing is computed: there are no weights and no metrics.
  bool isRehearsal = false;
};

/// The line goes to standard error: rewritten in place on a terminal, else one
/// line a second.
class Progress {
public:
  static Result<std::unique_ptr<Progress>> open(const PlanReport &plan,
                                                const ProgressOptions &options);
  ~Progress();

  /// The run goes on after another step than was said first, an earlier one:
  /// so do log and events.
  Result<void> startAfter(uint64_t step, bool evaluatesAgain = false);
  /// Says that the steps begin.
  void ready(const ReadyReport &report);
  /// All ranks start again, for the time of this number: steps that come once
  /// more have the values that they had, and are shown, but count and are
  /// logged once.
  void startAgain(uint32_t time);
  /// Logs the step and shows it.
  void step(const StepReport &step);
  /// Logs an evaluation and shows it.
  void evaluated(const EvaluationReport &report);
  /// Says that patience is over: {"step", "best_step", "best_loss"}.
  void stopped(const nlohmann::json &report);
  const std::optional<EvaluationReport> &lastEvaluation() const {
    return evaluation;
  }
  /// Tells the user something besides.
  void warn(const std::string &message);
  /// Shows how far the weights are saved.
  void saving(const SaveReport &report);
  /// Logs a checkpoint.
  void checkpoint(const CheckpointReport &report);
  /// Writes out what is pending; an error of the log is the first that
  /// happened.
  Result<void> close();

  uint64_t stepsDone() const { return done; }
  /// Those that are whole.
  const std::vector<CheckpointReport> &checkpoints() const {
    return checkpointed;
  }
  /// The files of weights that are complete.
  const std::vector<SaveReport> &saved() const { return complete; }
  double seconds() const { return timeInSteps; }
  /// The mean without the first step, which touches the memory for the first
  /// time.
  double secondsPerStep() const;
  /// The least of a step, without the first where there are several.
  double leastSecondsPerStep() const {
    return done > 1 ? leastSeconds : timeInSteps;
  }
  /// The metrics of the last step.
  const std::vector<std::pair<std::string, double>> &last() const {
    return lastMetrics;
  }
  /// The mean of each metric over all steps: over all targets where it has any,
  /// and NaN where none counted. Geometric where the plan says so.
  std::vector<std::pair<std::string, double>> means() const;
  /// Over how many targets these means are, by the names of the counts.
  std::vector<std::pair<std::string, double>> totals() const;
  /// The samples of all steps.
  double samples() const { return samplesDone; }
  /// Not where --allow-nan takes it as it is.
  bool meanLossIsNan() const;

private:
  Progress(const PlanReport &plan, const ProgressOptions &options)
      : plan(plan), options(options) {}
  Result<void> openLog();
  Result<void> openEvents();
  /// To the log, if there is one that can be written.
  void append(const nlohmann::ordered_json &record);
  void addEvents(const StepReport &step, double samplesPerSecond);
  /// To the event file, if there is one that can be written.
  void addEvents(uint64_t step,
                 const std::vector<std::pair<std::string, double>> &scalars);
  void show(const StepReport &step);
  void print(const std::string &line);
  bool isDue();
  bool isGeometric(const std::string &metric) const;
  /// Once for each reason.
  void warn(const StepReport &step, const std::vector<std::string> &notFinite);

  const PlanReport &plan;
  ProgressOptions options;
  FILE *log = nullptr;
  int logFailure = 0; // errno of the first
  std::optional<EventFile> events;
  std::optional<Error> eventFailure;
  bool terminal = false, lineOpen = false;
  bool reportedNotFinite = false, reportedNoTargets = false;
  uint64_t done = 0, latest = 0; // how many, and the last one's number
  uint64_t repeatsUpTo = 0;      // the last that an attempt before has done
  uint64_t evaluatedUpTo = 0; // the last after which an evaluation was logged
  double timeInSteps = 0, firstSeconds = 0, leastSeconds = 0;
  double samplesDone = 0;
  struct WeightedMean {
    std::string name;
    double sum, weight; // weights are targets, where the metric has any
    bool isCount;       // of another metric's targets: a sum
  };
  std::vector<WeightedMean> sums;
  std::vector<std::pair<std::string, double>> lastMetrics;
  std::vector<SaveReport> complete;
  std::vector<CheckpointReport> checkpointed;
  std::optional<EvaluationReport> evaluation;
  std::chrono::steady_clock::time_point lastShown;
};

/// What one rank used, as it reports it at its end.
struct RankUse {
  uint64_t peakResident = 0;
  uint64_t peakOwn = 0; // of it, without what it maps of its peers' memory
  double computeSeconds = 0, communicationSeconds = 0;
  double startingSeconds = 0, waitingSeconds = 0; // of communication
  uint64_t sentBytes = 0;
};
nlohmann::json toJson(const RankUse &use);
RankUse useFromJson(const nlohmann::json &json);

/// What will run and what each rank will hold.
std::string describeStart(const PlanReport &plan);
/// What each rank held and used.
std::string describeEnd(const PlanReport &plan, const Mesh &mesh,
                        const std::vector<RankUse> &ranks);

} // namespace polyrank::runtime
