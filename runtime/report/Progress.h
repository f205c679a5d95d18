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

/// How long one rank took for a step. Waiting for other ranks is a part of
/// communication; computing, communication and waiting for samples add up to
/// the step, except for reports.
struct RankStep {
  uint64_t step = 0; // from 1
  double seconds = 0, computeSeconds = 0, communicationSeconds = 0,
         waitingSeconds = 0;
  double dataSeconds = 0;     // waiting for samples
  uint64_t residentBytes = 0; // including its peers' memory that it maps

  /// The time without waiting for other ranks.
  double busySeconds() const { return seconds - waitingSeconds; }
};

/// The ranks that waited least (the slowest: the others waited for it) and most
/// (the fastest).
struct RankSpread {
  int slowest = 0, fastest = 0;
  RankStep ofSlowest, ofFastest;
  uint64_t residentBytes = 0; // of the rank with the most
};

/// One step, as the first rank of each program reports it.
struct StepReport {
  uint64_t step = 0; // from 1
  double seconds = 0;
  /// The longest time for which a rank waited for its samples, of those that
  /// have reported.
  double dataSeconds = 0;
  double communicationShare = 0;
  std::vector<std::pair<std::string, double>> metrics, learningRates;
  std::optional<RankSpread> spread; // if all ranks have reported
  /// The share of the batch's rows that are distinct samples: the last samples,
  /// if they do not fill a batch, are repeated in it.
  double share = 1;

  /// The value of a metric, or null if there is none of this name.
  const double *metric(std::string_view name) const;
  /// The number of targets over which the metric is a mean; null if it is
  /// unknown.
  const double *targetsOf(std::string_view name) const;
  /// True if the metric is the number of targets of another one.
  bool isCount(std::string_view name) const;
  /// Scales the counts so that each distinct sample counts once.
  void countOnce();
  /// False if no target counts: then the loss or a term of it is a mean over
  /// nothing, that is, NaN, and contributes no gradient.
  bool hasTargets() const;
  /// The first metric that is such a mean over nothing.
  std::string_view withoutTargets() const;
  /// True if the step did not update the parameters since a gradient was not
  /// finite: its metric `skipped` is not zero.
  bool isSkipped() const;
  /// True if it can also not go on by skipping steps (`skipped` is 2): the loss
  /// scale is as small as it may be. Elements of parameters whose gradients
  /// were not finite are NaN then.
  bool isStuck() const;
  /// True if the loss is NaN although there are targets, and the step updated
  /// the parameters.
  bool lossIsNan() const;

  /// Merges the report of another program's first rank for the same step: takes
  /// the longer time, and the metrics that are missing.
  void add(const StepReport &other);
};

void to_json(nlohmann::json &json, const StepReport &step);
void from_json(const nlohmann::json &json, StepReport &step);

/// A rank's report of the times before the first step: to touch the arena's
/// pages, and to read the weights.
struct ReadyReport {
  double memorySeconds = 0, weightsSeconds = 0;
};

void to_json(nlohmann::json &json, const ReadyReport &ready);
void from_json(const nlohmann::json &json, ReadyReport &ready);

/// A rank's report of the progress of saving weights.
struct SaveReport {
  std::string path;
  uint64_t done = 0, bytes = 0;
  double seconds = 0; // once the file is complete
};

void to_json(nlohmann::json &json, const SaveReport &saving);
void from_json(const nlohmann::json &json, SaveReport &saving);

/// A complete checkpoint.
struct CheckpointReport {
  uint64_t step = 0;
  std::string path;
  uint64_t bytes = 0;
  /// Times of the slowest rank: the copy, during which the training stands
  /// still, and the write until everything is durable, during which it
  /// continues.
  double copySeconds = 0, writeSeconds = 0;
};

/// The results of an evaluation, as the first rank of each program reports
/// them.
struct EvaluationReport {
  uint64_t step = 0, samples = 0;
  double seconds = 0;
  std::vector<std::pair<std::string, double>> metrics; // eval_loss ..

  /// Merges the report of another program's first rank for the same evaluation.
  void add(const EvaluationReport &other);
};
void to_json(nlohmann::json &json, const EvaluationReport &report);
void from_json(const nlohmann::json &json, EvaluationReport &report);

/// A rank's report that the run ends since the loss of held-out samples does
/// not become smaller any more.
struct PatienceReport {
  uint64_t step = 0, bestStep = 0;
  double bestLoss = 0;
};

void to_json(nlohmann::json &json, const PatienceReport &report);
void from_json(const nlohmann::json &json, PatienceReport &report);

struct ProgressOptions {
  bool quiet = false;
  std::string log;            // path of the JSON lines; empty: none
  std::string tensorboard;    // folder of event files; empty: none
  nlohmann::ordered_json run; // the log's first record; null: none
  uint64_t steps = 0;
  /// The steps that were done when the run began. The log and events of later
  /// steps are dropped, and those of earlier ones stay. 0: both are new.
  uint64_t stepsBefore = 0;
  /// The evaluation after the last of these steps is repeated.
  bool evaluatesAgain = false;
  /// A NaN loss is an error of the run, so that no warning is needed.
  bool endsAtNan = false;
  /// Nothing is computed: there are no weights and no metrics.
  bool isRehearsal = false;
};

/// Shows the progress of a run on standard error: a line that is rewritten in
/// place on a terminal, else one line per second.
class Progress {
public:
  static Result<std::unique_ptr<Progress>> open(const PlanReport &plan,
                                                const ProgressOptions &options);
  ~Progress();

  /// The run continues after an earlier step than was first stated; so do log
  /// and events.
  Result<void> startAfter(uint64_t step, bool evaluatesAgain = false);
  /// Shows that the steps begin.
  void ready(const ReadyReport &report);
  /// All ranks are restarted, for the time number `time`. Repeated steps have
  /// the same values as before; they are shown, but counted and logged only
  /// once.
  void startAgain(uint32_t time);
  /// Logs the step and shows it.
  void step(const StepReport &step);
  /// Logs an evaluation and shows it.
  void evaluated(const EvaluationReport &report);
  /// Shows that patience is exhausted.
  void stopped(const PatienceReport &report);
  const std::optional<EvaluationReport> &lastEvaluation() const {
    return evaluation;
  }
  /// Shows a warning to the user.
  void warn(const std::string &message);
  /// Shows the progress of saving weights.
  void saving(const SaveReport &report);
  /// Logs a checkpoint.
  void checkpoint(const CheckpointReport &report);
  /// Writes out what is pending. An error of the log is the first one that
  /// occurred.
  Result<void> close();

  uint64_t stepsDone() const { return done; }
  /// All complete checkpoints.
  const std::vector<CheckpointReport> &checkpoints() const {
    return checkpointed;
  }
  /// The files of weights that are complete.
  const std::vector<SaveReport> &saved() const { return complete; }
  double seconds() const { return timeInSteps; }
  /// The mean over the steps without the first one, which touches the memory
  /// for the first time.
  double secondsPerStep() const;
  /// The minimum over the steps, without the first if there are several.
  double leastSecondsPerStep() const {
    return done > 1 ? leastSeconds : timeInSteps;
  }
  /// The sum over the steps of the time for which they waited for samples.
  double dataSeconds() const { return timeOfData; }
  /// The metrics of the last step.
  const std::vector<std::pair<std::string, double>> &last() const {
    return lastMetrics;
  }
  /// The mean of each metric over all steps: weighted by targets if it has any,
  /// and NaN if none counted. It is a geometric mean if the plan says so.
  std::vector<std::pair<std::string, double>> means() const;
  /// The numbers of targets of these means, by the names of the counts.
  std::vector<std::pair<std::string, double>> totals() const;
  /// The number of samples of all steps.
  double samples() const { return samplesDone; }
  /// True if the mean loss is NaN and --allow-nan does not permit it.
  bool meanLossIsNan() const;

private:
  Progress(const PlanReport &plan, const ProgressOptions &options)
      : plan(plan), options(options) {}
  Result<void> openLog();
  Result<void> openEvents();
  /// Appends to the log, if there is one and it can be written.
  void append(const nlohmann::ordered_json &record);
  void addEvents(const StepReport &step, double samplesPerSecond);
  /// Appends to the event file, if there is one and it can be written.
  void addEvents(uint64_t step,
                 const std::vector<std::pair<std::string, double>> &scalars);
  void show(const StepReport &step);
  void print(const std::string &line);
  bool isDue();
  bool isGeometric(const std::string &metric) const;
  /// Warns once for each reason.
  void warn(const StepReport &step, const std::vector<std::string> &notFinite);

  const PlanReport &plan;
  ProgressOptions options;
  FILE *log = nullptr;
  int logFailure = 0; // errno of the first
  std::optional<EventFile> events;
  std::optional<Error> eventFailure;
  bool terminal = false, lineOpen = false;
  bool reportedNotFinite = false, reportedNoTargets = false;
  uint64_t done = 0, latest = 0; // the count, and the latest step's number
  uint64_t updates = 0;          // the steps of `done` that were not skipped
  uint64_t repeatsUpTo = 0;      // the last step of earlier attempts
  uint64_t evaluatedUpTo = 0;    // the last step with a logged evaluation
  double timeInSteps = 0, firstSeconds = 0, leastSeconds = 0, timeOfData = 0;
  double samplesDone = 0;
  struct WeightedMean {
    std::string name;
    double sum, weight; // the weights are targets, if the metric has any
    bool isCount;       // a sum of another metric's targets
  };
  std::vector<WeightedMean> sums;
  std::vector<std::pair<std::string, double>> lastMetrics;
  std::vector<SaveReport> complete;
  std::vector<CheckpointReport> checkpointed;
  std::optional<EvaluationReport> evaluation;
  std::chrono::steady_clock::time_point lastShown;
};

/// The resources that one rank used, as it reports them at its end.
struct RankUse {
  uint64_t peakResident = 0;
  uint64_t peakOwn = 0; // of it, without its peers' memory that it maps
  double computeSeconds = 0, communicationSeconds = 0;
  double startingSeconds = 0, waitingSeconds = 0; // of communication
  uint64_t sentBytes = 0;
  double dataSeconds = 0; // waiting for samples
};
void to_json(nlohmann::json &json, const RankUse &use);
void from_json(const nlohmann::json &json, RankUse &use);

/// Describes what will run and what each rank will hold.
std::string describeStart(const PlanReport &plan);
/// Describes what each rank held and used.
std::string describeEnd(const PlanReport &plan, const Mesh &mesh,
                        const std::vector<RankUse> &ranks);

} // namespace polyrank::runtime
