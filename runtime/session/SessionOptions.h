// What is requested of a session, and what follows from that and from the plan.

#pragma once

#include "runtime/data/DataSource.h"
#include "runtime/exec/Links.h"
#include "runtime/exec/RankProgram.h"
#include "runtime/feed/FeedSources.h"
#include "runtime/launch/Cores.h"
#include "runtime/place/JobPlace.h"
#include "runtime/plan/LearningRates.h"
#include "runtime/plan/StepTimes.h"
#include "runtime/plan/VerifyPlan.h"
#include "runtime/report/Progress.h"
#include "runtime/session/CheckpointOptions.h"
#include "runtime/session/MachineOptions.h"
#include "support/Bytes.h"

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

/// The options of a session, which a tool fills in. A session's messages call
/// them by their names on the command line (`--init`).
struct SessionOptions {
  std::string plan, init, save, saveTrained, saveEma, log, tensorboard, profile,
      trace, inputs, outputs, tokenType, sha256, rehearse;
  /// Files, patterns and weights, as findDataFiles reads them.
  std::vector<std::string> data, evalData;
  double dataTimeout = 600; // seconds for which a feed may give nothing
  DocumentOptions documents;
  ElementType saveFloats = ElementType::F32; // see SavedWeights::floats
  std::string saveShardSize = "5GB";         // of each file of a folder
  CheckpointOptions checkpoints;
  MachineOptions machines;
  /// The task that this process is, by whoever has started it.
  JobPlace place;
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
  /// The name under which the ranks come as guests (GuestDoor); empty: the run
  /// starts them itself.
  std::string guests;
  std::optional<double> timeout; // seconds; 0: never; default: by step time
  std::optional<plan::Denormals> denormals; // must be the plan's
  bool allowNan = false, quiet = false, json = false,
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
  /// The feeds that --data names, in options that completeOptions has checked;
  /// none if it names files.
  std::vector<FeedSource> feeds() const;
  bool hasFeeds() const { return !feeds().empty(); }
  /// The number of steps of a run that ends with its feeds.
  static constexpr uint64_t stepsUntilTheEnd = (uint64_t(1) << 31) - 1;
  bool savesAny() const {
    return !save.empty() || !saveTrained.empty() || !saveEma.empty();
  }
};

/// Loads the plan from an open file, and fails if it is not the requested one
/// (--sha256).
Result<LoadedPlan> loadPlan(const SessionOptions &options, int descriptor);

/// Checks the options against the plan, and sets those that follow from the
/// plan (a forward plan takes samples in order).
Result<SessionOptions> completeOptions(SessionOptions options,
                                       const plan::Plan &plan);

/// Returns the learning rates of the run.
Result<LearningRates> ratesOf(const SessionOptions &options,
                              const plan::Plan &plan);

/// Returns the emulated links of the run.
Result<Links> linksOf(const SessionOptions &options, const plan::Plan &plan);

/// Returns the times of the plan's commands that replace computation with
/// --rehearse; nothing without it.
Result<std::optional<StepTimes>> timesOf(const SessionOptions &options,
                                         const LoadedPlan &plan);

} // namespace polyrank::runtime
