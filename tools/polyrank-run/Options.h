// The command line of polyrank-run.

#pragma once

#include "runtime/data/DataSource.h"
#include "runtime/exec/RankProgram.h"
#include "runtime/launch/Cores.h"
#include "runtime/plan/LearningRates.h"
#include "runtime/plan/StepTimes.h"
#include "runtime/plan/VerifyPlan.h"
#include "runtime/report/Progress.h"
#include "tools/polyrank-run/CheckpointOptions.h"

#include <array>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace polyrank::runtime {

/// A file of weights that a run writes at its end.
struct SaveFile {
  const char *option; // "--save"
  std::string path;   // empty: none; with '/' at its end: a folder
  SavedWeights what;
};
inline constexpr size_t numSaveFiles = 3;

struct RunOptions {
  std::string plan, init, save, saveTrained, saveEma, log, tensorboard, profile,
      trace, inputs, outputs, tokenType, sha256, rehearse;
  /// Files, patterns and weights, as findDataFiles reads them.
  std::vector<std::string> data, evalData;
  DocumentOptions documents;
  uint64_t saveShardBytes = 5'000'000'000; // of the files of a folder
  CheckpointOptions checkpoints;
  uint64_t steps = 0; // 0: forward plans take all samples once
  double epochs = 0;  // instead of steps
  uint64_t evalEvery = 0, patience = 0; // 0: never, and for ever
  std::string evalPlan;
  bool evalEma = false;
  int64_t seed = 0;
  std::optional<double> learningRate; // else the plan's
  std::string schedule;               // of it; empty: the plan's
  std::vector<std::string> links;     // AXIS=MICROSECONDS:GB_PER_S
  SampleOrder order = SampleOrder::Random;
  double holdout = 0;
  int threads = 0; // 0: the plan's
  int commThreads = 0;
  std::optional<Binding> binding; // else as well as it goes
  uint32_t restarts = 0;          // after a rank has failed
  std::optional<double> timeout;  // seconds; 0: never; else as steps take
  bool flushDenormals = true, allowNan = false, quiet = false, json = false,
       check = false,  // and run nothing
      noCheck = false; // of the machine, at the start
  /// The call that the ranks are started with: what the command line and
  /// --config said together.
  std::vector<std::string> arguments;
  std::vector<std::string> commandLine; // as it was given
  /// The options that were given, on the command line or in --config: "seed".
  std::set<std::string> given;

  /// Whether what each rank takes for a step is wanted.
  bool measuresRanks() const { return !log.empty() || !tensorboard.empty(); }
  std::vector<std::string> samples() const {
    return data.empty() && !inputs.empty() ? std::vector{inputs} : data;
  }
  /// All, also those that are not asked for.
  std::array<SaveFile, numSaveFiles> saves() const {
    return {{{"--save", save, {}},
             {"--save-trained", saveTrained, {.trainedAlone = true}},
             {"--save-ema", saveEma, {.state = "ema"}}}};
  }
  bool savesAny() const {
    return !save.empty() || !saveTrained.empty() || !saveEma.empty();
  }
};

/// Parses the command line. An integer is the exit status of a call that asked
/// for help or was wrong, and has been told so.
std::variant<RunOptions, int> parseOptions(int argc, char **argv);

/// The plan, if it is the one that was asked for, from an open file.
Result<LoadedPlan> loadPlan(const RunOptions &options, int descriptor);

/// What can be said of options and plan together, and the options that follow
/// from the plan (a forward plan takes samples in order).
Result<RunOptions> completeOptions(RunOptions options, const plan::Plan &plan);

/// The samples that a run reads, the same in launcher and ranks.
Result<DataSource> openData(const RunOptions &options, const plan::Plan &plan);

/// The samples that a training evaluates: of --eval-data, or its own that are
/// held out. `plan` is the one that evaluates.
Result<DataSource> openEvaluationData(const RunOptions &options,
                                      const plan::Plan &plan);

/// Of the samples in the order in which the plan's training takes them.
Result<std::string> fingerprintOf(const DataSource &data,
                                  const plan::Plan &plan);

/// In a rank: are these the samples of which the launcher found this
/// fingerprint? A pattern may mean other files a moment later.
Result<void> checkSameData(std::string_view launchers, const DataSource &data,
                           const plan::Plan &plan);

/// The learning rates of each step.
Result<LearningRates> ratesOf(const RunOptions &options,
                              const plan::Plan &plan);

/// The links that the run's collectives are held back to.
Result<Links> linksOf(const RunOptions &options, const plan::Plan &plan);

/// What stands in for computation with --rehearse: times of the plan's
/// commands. Without it nothing.
Result<std::optional<StepTimes>> timesOf(const RunOptions &options,
                                         const LoadedPlan &plan);

/// Which samples a run uses, and how many steps it makes of them.
Split splitOf(const RunOptions &options, const plan::Plan &plan);
/// Whether each sample is taken once, also those that make no whole batch: by a
/// forward plan that gives numbers, unless --steps or --epochs say how far it
/// goes.
bool evaluatesAll(const RunOptions &options, const plan::Plan &plan);
/// The batches of its steps; of a run that does not none, for its steps take
/// the batches of their numbers.
std::vector<Batch> evaluatedBatchesOf(const RunOptions &options,
                                      const plan::Plan &plan,
                                      const DataSource &data);
uint64_t stepsOf(const RunOptions &options, const plan::Plan &plan,
                 const DataSource &data);
/// Of how many samples those steps give outputs: each once.
uint64_t outputSamplesOf(const RunOptions &options, const plan::Plan &plan,
                         const DataSource &data);

/// Whether a NaN ends the run.
bool stopsAtNan(const RunOptions &options, const plan::Plan &plan);
/// A NaN goes from the loss to all weights, and stays: what to say of a step
/// whose loss is NaN, and of what it read (`data` may be null). Where no target
/// counted, the loss is a mean of nothing, and the gradients are zero. `origin`
/// is the step after which the order of the samples began.
std::optional<Error> findNotFinite(const RunOptions &options,
                                   const plan::Plan &plan,
                                   const StepReport &report,
                                   const DataSource *data, uint64_t origin);

} // namespace polyrank::runtime
