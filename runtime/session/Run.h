// One run as the launcher sees it: from the checked input to the written files.

#pragma once

#include "runtime/comm/shm/ShmMemory.h"
#include "runtime/job/local/LocalJob.h"
#include "runtime/launch/Launcher.h"
#include "runtime/launch/Restarts.h"
#include "runtime/report/LogFile.h"
#include "runtime/report/RankSteps.h"
#include "runtime/report/RunReport.h"
#include "runtime/session/Committer.h"
#include "runtime/session/Prepare.h"
#include "runtime/session/RunPage.h"

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace polyrank::runtime {

/// Checks the input, starts the ranks, shows their progress, restarts them if
/// that may help, and writes what they leave.
class Run : Preparation {
public:
  /// `hasBegun` becomes true once all input that precedes the run has been
  /// read.
  Run(const SessionOptions &given, bool &hasBegun)
      : Preparation(given), hasBegun(hasBegun), restarts(given.restarts) {}

  Result<void> run();

  /// The exit status of a run without an error.
  int status() const {
    return progress->meanLossIsNan() ? int(Error::Fault::NotFinite) : 0;
  }

  uint64_t stepsDone() const { return progress ? progress->stepsDone() : 0; }
  /// True if the user interrupted the wait for a thread that still writes to
  /// the disk.
  bool isAbandoned() const { return abandoned; }
  RunFiles files() const;

private:
  void makeCollector() {
    collector.emplace(report.ranks, plan->programs(), options.measuresRanks());
  }

  void finish(const StepReport &step) { progress->step(step); }

  /// Judged by the step that a rank has begun, not by reports: a rank may die
  /// before another one's report of the previous step has arrived.
  Attempt howFar(bool fromOutside) const;
  bool hasBegunStep() const { return page->lastBegun() > page->facts().step; }

  /// Discards all results of a failed attempt, so that none gets into the files
  /// of the next one.
  Result<void> forgetAttempt();

  /// Checks the loss once the first ranks of all programs have reported a step.
  void take(int rank, StepReport report);

  /// Ends the job once all ranks have said that they are stuck in a step.
  void takeStuck(int rank, const nlohmann::json &message);

  /// Prepares the page that ranks and launcher share before the first step.
  Result<void> prepareCheckpoints();

  /// Tells the ranks the identities of the files that they must find under the
  /// names in the options.
  Result<void> setIdentities();

  /// Tells the ranks from which checkpoint they begin.
  Result<void> setResumed();

  /// Starts the ranks, and restarts them as long as that may help: from an
  /// older checkpoint if they find theirs damaged, from the newest one if they
  /// fail.
  Result<void> launchAll(LaunchOptions &launch,
                         const local::JobOptions &jobOptions,
                         const EndSignals &signals);

  /// Waits until the checkpoints that all ranks have written are committed.
  /// Schedulers may repeat their signals meanwhile; a SIGINT after another
  /// signal ends the wait.
  Result<void> finishCheckpoints(const EndSignals &signals);

  /// Called while no rank runs. With checkpoints all that can be saved is
  /// saved.
  Error endBetweenAttempts(int signal, const std::string &why = "") const;

  /// After a failure the ranks resume from the newest checkpoint that the run
  /// has made, or else from where they began.
  Result<void> takeNewest();

  Result<void> takeOlder();

  void tellResumed() const;

  void tickCheckpoints();

  /// Warns about the 1st, the 10th, the 100th .. skipped save.
  void noteSkipped(uint64_t step);

  /// Returns the checkpoint from which the run can be resumed.
  std::string keptCheckpoint() const;

  /// Returns the descriptors that ranks inherit, in the order of JobFile.
  std::vector<int> descriptorsWith(const std::vector<shm::Memory> &all) const;

  /// Creates the memory by which ranks communicate: for the plan and, if there
  /// is one, for the evaluating plan.
  Result<std::vector<shm::Memory>> createMemory() const;

  /// An evaluation is done once the first ranks of all programs have reported
  /// it.
  void takeEvaluation(EvaluationReport report);

  /// A run that resets the optimizer or the samples is a new one: losses of the
  /// earlier run do not count.
  bool isAnotherRun() const {
    return options.checkpoints.resetOptimizer || options.checkpoints.resetData;
  }

  /// The result of the evaluations up to the checkpoint from which the run
  /// resumes.
  std::optional<ManifestEvaluation> evaluationsBefore() const;

  /// True if the ranks evaluate before the first step.
  bool isToEvaluate() const;

  /// Describes what a run that ended early has not written.
  std::string keptFiles() const;

  /// Commits the files that the ranks have written, and writes the other
  /// outputs.
  Result<void> writeOutputs();

  /// Writes --outputs: the tensors that the ranks have assembled, and the
  /// printed mean of each scalar output.
  Result<void> writeArrays();

  void summarise() const;

  bool &hasBegun;
  std::unique_ptr<Progress> progress;
  JobControl *job = nullptr; // while it runs
  FileOperations diskFiles;  // of checkpoints
  std::optional<RunPage> page;
  std::optional<Committer> committer;
  std::string damage; // found by a rank in the checkpoint
  std::chrono::steady_clock::time_point lastRequest; // of a save
  uint64_t requests = 0, endedBefore = 0; // `endedBefore`: before this attempt
  uint64_t skipped = 0;                   // saves that were skipped: slow disk
  std::optional<double> rehearsedSeconds; // of a step, by times and links
  std::vector<RankUse> uses;
  std::optional<StepCollector> collector;
  Restarts restarts;
  std::optional<Error> notFinite; // the NaN loss that ended the job
  /// The ranks that are stuck in a step, by the number of the first stored
  /// tensor whose gradient was not finite there.
  std::vector<std::pair<uint32_t, int>> stuck;
  uint64_t tracedSteps = 0;
  std::map<uint64_t, std::pair<EvaluationReport, uint32_t>> evaluated;
  Patience patience{0}; // knows all evaluations so far
  bool isKept = false;  // weights are kept despite a data error
  bool abandoned = false;
};

} // namespace polyrank::runtime
