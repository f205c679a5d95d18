// What a session has once its input is checked.

#pragma once

#include "runtime/checkpoint/CheckpointFolder.h"
#include "runtime/exec/CheckpointLayout.h"
#include "runtime/exec/Weights.h"
#include "runtime/job/Window.h"
#include "runtime/plan/PlanReport.h"
#include "runtime/session/Evaluation.h"
#include "runtime/session/OutputArrays.h"
#include "runtime/session/OutputFiles.h"
#include "runtime/session/OutputLocks.h"
#include "support/File.h"

#include <optional>
#include <vector>

namespace polyrank::runtime {

/// Filled by the checks of Preparation, in the launcher.
struct Prepared {
  SessionOptions options; // completed from the plan
  Descriptor planDescriptor;
  std::optional<LoadedPlan> plan;
  std::optional<Mesh> mesh;
  PlanReport report;
  RankRange here;                 // the ranks that this machine runs
  std::optional<StepTimes> times; // of a rehearsal
  std::optional<Weights> weights; // unless a run resumes
  std::optional<DataSource> data;
  uint64_t steps = 0; // of the run, those before a checkpoint included
  std::optional<Evaluation> evaluation;
  Descriptor evalPlanDescriptor;
  std::optional<Window> evalWindow;
  /// The checkpoint to resume from, the order of samples from there on, and the
  /// layout of the checkpoints to write.
  std::optional<FoundCheckpoint> resumed;
  ManifestData dataState;
  std::optional<CheckpointLayout> checkpoint;
  /// Held as long as the run may write its outputs.
  OutputLocks locks;
  std::vector<OutputArray> outputs;
  std::optional<OutputFiles> files;

  /// True if several machines share the ranks of the plan out.
  bool isShared() const { return here.count < report.ranks; }
  /// True if this machine writes the files of the run, and shows its progress.
  bool isWriter() const { return !isShared() || here.has(0); }
  uint64_t stepsBefore() const { return resumed ? resumed->manifest.step : 0; }
  /// The number of steps; 0 if it is that of the feed's samples.
  uint64_t knownSteps() const {
    return steps == SessionOptions::stepsUntilTheEnd ? 0 : steps;
  }
  const DataSource *dataOrNull() const { return data ? &*data : nullptr; }
  /// The size of the window of the outputs, or of what is saved.
  uint64_t windowBytes() const;
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
};

} // namespace polyrank::runtime
