// The command line of polyrank-run.

#pragma once

#include "runtime/data/DataSource.h"
#include "runtime/exec/RankProgram.h"
#include "runtime/launch/Cores.h"
#include "runtime/plan/LearningRates.h"
#include "runtime/plan/StepTimes.h"
#include "runtime/plan/VerifyPlan.h"
#include "runtime/report/Progress.h"
#include "support/Bytes.h"
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
  std::string path;   // empty: none; with a final '/': a folder
  SavedWeights what;
};
inline constexpr size_t numSaveFiles = 3;

struct RunOptions {
  std::string plan, init, save, saveTrained, saveEma, log, tensorboard, profile,
      trace, inputs, outputs, tokenType, sha256, rehearse;
  /// Files, patterns and weights, as findDataFiles reads them.
  std::vector<std::string> data, evalData;
  DocumentOptions documents;
  ElementType saveFloats = ElementType::F32; // see SavedWeights::floats
  std::string saveShardSize = "5GB";         // of each file of a folder
  std::string transport = "shm";
  CheckpointOptions checkpoints;
  uint64_t steps = 0; // 0: forward plans take all samples once
  double epochs = 0;  // instead of steps
  uint64_t evalEvery = 0, patience = 0; // 0: never, and for ever
  std::string evalPlan;
  bool evalEma = false;
  int64_t seed = 0;
  std::optional<double> learningRate; // else the plan's
  std::string schedule;               // its schedule; empty: the plan's
  std::vector<std::string> links;     // AXIS=MICROSECONDS:GB_PER_S
  SampleOrder order = SampleOrder::Random;
  double holdout = 0;
  int threads = 0; // 0: the plan's
  int commThreads = 0;
  std::optional<Binding> binding; // by default cores if possible
  uint32_t restarts = 0;          // after a rank has failed
  std::optional<double> timeout;  // seconds; 0: never; default: by step time
  std::optional<plan::Denormals> denormals; // must be the plan's
  bool allowNan = false, quiet = false, json = false,
       check = false,  // check everything, and run nothing
      noCheck = false; // skip the check of the machine at the start
  /// The command line of the ranks: the options of the command line and of
  /// --config together.
  std::vector<std::string> arguments;
  std::vector<std::string> commandLine; // as the user gave it
  /// The options that were given on the command line or in --config: "seed".
  std::set<std::string> given;

  uint64_t saveShardBytes() const { return *parseBytes(saveShardSize); }
  /// True if the time of each rank in each step is to be measured.
  bool measuresRanks() const { return !log.empty() || !tensorboard.empty(); }
  std::vector<std::string> samples() const {
    return data.empty() && !inputs.empty() ? std::vector{inputs} : data;
  }
  /// All files of weights, including those that are not requested.
  std::array<SaveFile, numSaveFiles> saves() const {
    return {{{"--save", save, {.floats = saveFloats}},
             {"--save-trained",
              saveTrained,
              {.trainedAlone = true, .floats = saveFloats}},
             {"--save-ema", saveEma, {.state = "ema", .floats = saveFloats}}}};
  }
  bool savesAny() const {
    return !save.empty() || !saveTrained.empty() || !saveEma.empty();
  }
};

/// Parses the command line. An integer is the exit status after a request for
/// help or an error, which have been printed.
std::variant<RunOptions, int> parseOptions(int argc, char **argv);

/// Loads the plan from an open file, and fails if it is not the requested one
/// (--sha256).
Result<LoadedPlan> loadPlan(const RunOptions &options, int descriptor);

/// Checks the options against the plan, and sets those that follow from the
/// plan (a forward plan takes samples in order).
Result<RunOptions> completeOptions(RunOptions options, const plan::Plan &plan);

/// Opens the samples that a run reads, in the launcher and in all ranks.
Result<DataSource> openData(const RunOptions &options, const plan::Plan &plan);

/// Opens the samples that a training evaluates: those of --eval-data, or its
/// own holdout. `plan` is the evaluating plan.
Result<DataSource> openEvaluationData(const RunOptions &options,
                                      const plan::Plan &plan);

/// Returns the fingerprint of the samples in the order in which the plan's
/// training takes them.
Result<std::string> fingerprintOf(const DataSource &data,
                                  const plan::Plan &plan);

/// Identifies the files of the samples, as 32 hex digits.
Result<std::string> identityOf(const DataSource &data);

/// Called in a rank. Fails unless the samples have the launcher's fingerprint:
/// a pattern may match other files a moment later.
Result<void> checkSameData(std::string_view launchers, const DataSource &data,
                           const plan::Plan &plan);

/// Returns the learning rates of the run.
Result<LearningRates> ratesOf(const RunOptions &options,
                              const plan::Plan &plan);

/// Returns the emulated links of the run.
Result<Links> linksOf(const RunOptions &options, const plan::Plan &plan);

/// Returns the times of the plan's commands that replace computation with
/// --rehearse; nothing without it.
Result<std::optional<StepTimes>> timesOf(const RunOptions &options,
                                         const LoadedPlan &plan);

/// Returns the split that a run uses.
Split splitOf(const RunOptions &options, const plan::Plan &plan);
/// True if each sample is taken once, including those that fill no whole batch:
/// for a forward plan with metrics, unless --steps or --epochs limit it.
bool evaluatesAll(const RunOptions &options, const plan::Plan &plan);
/// Returns the batches of the steps of such a run. Empty for any other run,
/// whose step s takes batch s.
std::vector<Batch> evaluatedBatchesOf(const RunOptions &options,
                                      const plan::Plan &plan,
                                      const DataSource &data);
uint64_t stepsOf(const RunOptions &options, const plan::Plan &plan,
                 const DataSource &data);
/// Returns the number of samples for which these steps give outputs, each once.
uint64_t outputSamplesOf(const RunOptions &options, const plan::Plan &plan,
                         const DataSource &data);

/// True if a NaN ends the run.
bool stopsAtNan(const RunOptions &options, const plan::Plan &plan);
/// Returns the error for a step whose loss is NaN, with what the step read
/// (`data` may be null): a NaN spreads from the loss to all weights and stays
/// there. If no target counted, the loss is a mean over nothing, and the
/// gradients are zero. `origin` is the step after which the order of the
/// samples began.
std::optional<Error> findNotFinite(const RunOptions &options,
                                   const plan::Plan &plan,
                                   const StepReport &report,
                                   const DataSource *data, uint64_t origin);

/// Returns the error for a step that could neither be applied nor skipped.
/// `where` names the first parameter whose gradient was not finite, and its
/// rank; the other arguments are as above.
Error describeStuck(const RunOptions &options, const plan::Plan &plan,
                    uint64_t step, const std::string &where,
                    const DataSource *data, uint64_t origin);

} // namespace polyrank::runtime
