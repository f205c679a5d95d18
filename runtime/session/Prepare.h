// Finds, opens and checks what a run needs, before a rank is started.

#pragma once

#include "runtime/exec/CheckpointLayout.h"
#include "runtime/exec/Weights.h"
#include "runtime/job/Window.h"
#include "runtime/plan/PlanReport.h"
#include "runtime/session/Evaluation.h"
#include "runtime/session/OutputLocks.h"
#include "runtime/session/Resume.h"
#include "runtime/session/SaveOutput.h"
#include "support/OutputFile.h"

namespace polyrank::runtime {

/// An output of a forward plan for all samples that a run writes. All outputs
/// lie one after another in one memory, each aligned to 64 bytes.
struct OutputArray {
  uint32_t program; // the program that has it
  size_t number;    // its number in the program
  std::string name;
  ElementType dtype;
  std::vector<int64_t> shape; // the batch dim has all samples
  uint64_t offset, bytes;
};
std::vector<OutputArray> outputArraysOf(const plan::Plan &plan,
                                        uint64_t samples);

/// The result of one check, or why it fails.
struct CheckLine {
  const char *name; // "memory"
  bool holds;
  std::string text;
};

/// The inputs and outputs of a run, from its options.
class Preparation {
public:
  explicit Preparation(const SessionOptions &given) : options(given) {}

  /// Opens everything, and stops at the first error.
  Result<void> run();

  /// Checks everything, including what `run` leaves to the ranks (each byte of
  /// the weights, each value of the data, the kernels' code), and returns all
  /// results. Only what depends on a failed check is skipped. No rank is
  /// started, and no outputs are left.
  std::vector<CheckLine> checkAll();

  SessionOptions options; // completed from the plan
  Descriptor planDescriptor;
  std::optional<Window> window; // of `outputs`, or of what is saved
  std::optional<LoadedPlan> plan;
  std::optional<Mesh> mesh;
  std::optional<StepTimes> times; // of a rehearsal
  PlanReport report;
  std::optional<DataSource> data;
  std::optional<Evaluation> evaluation;
  Descriptor evalPlanDescriptor;
  std::optional<Window> evalWindow;
  uint64_t steps = 0;
  /// The checkpoint to resume from, the order of samples from there on, and the
  /// layout of the checkpoints to write.
  std::optional<FoundCheckpoint> resumed;
  ManifestData dataState;
  std::optional<CheckpointLayout> checkpoint;
  /// Held as long as the run may write its outputs.
  OutputLocks locks;
  uint64_t stepsBefore() const { return resumed ? resumed->manifest.step : 0; }
  std::vector<SaveOutput> saveOutputs; // the requested ones
  std::optional<OutputFile> profileOutput, traceOutput, npzOutput;
  std::vector<OutputArray> outputs;

protected:
  uint64_t windowBytes() const;

private:
  /// Each check returns a text with what it found. With `whole` it is complete,
  /// else it leaves to the ranks what they check.
  Result<std::string> checkPlan(bool whole);
  Result<std::string> checkOptions(bool whole);
  Result<std::string> checkDevice(bool whole);
  Result<std::string> checkCores(bool whole);
  Result<std::string> checkWeights(bool whole);
  Result<std::string> checkFiles(bool whole);
  Result<std::string> checkData(bool whole);
  Result<std::string> checkMemory(bool whole);
  Result<std::string> checkDisk(bool whole);
  Result<std::string> checkResumed(bool whole);
  Result<std::vector<OutputUse>> outputUses() const;
  Result<void> checkCheckpointFolder(bool whole);
  struct Check;
  static const std::vector<Check> checks;

  Result<void> checkEvaluation(bool whole);
  /// The memory that each rank of a program needs for evaluations, plus what
  /// all ranks share.
  uint64_t evaluationBytes(const ProgramReport &program) const;

  std::optional<Weights> weights;
};

} // namespace polyrank::runtime
