// What a run needs before a rank is started: found, opened and checked.

#pragma once

#include "runtime/comm/shm/ShmJob.h"
#include "runtime/exec/CheckpointLayout.h"
#include "runtime/exec/Weights.h"
#include "runtime/plan/PlanReport.h"
#include "support/OutputFile.h"
#include "tools/polyrank-run/Evaluation.h"
#include "tools/polyrank-run/OutputLocks.h"
#include "tools/polyrank-run/Resume.h"
#include "tools/polyrank-run/SaveOutput.h"

namespace polyrank::runtime {

/// One of the outputs of a forward plan for all samples that a run writes: they
/// lie one after the other in one memory, each aligned to 64 bytes.
struct OutputArray {
  uint32_t program; // that has it,
  size_t number;    // under this number
  std::string name;
  DType dtype;
  std::vector<int64_t> shape; // with all samples where the model has the batch
  uint64_t offset, bytes;
};
std::vector<OutputArray> outputArraysOf(const plan::Plan &plan,
                                        uint64_t samples);

/// What one check found, or why it fails.
struct CheckLine {
  const char *name; // "memory"
  bool holds;
  std::string text;
};

/// The inputs and outputs of a run, from its options.
class Preparation {
public:
  explicit Preparation(const RunOptions &given) : options(given) {}

  /// Opens everything, and stops at the first thing that is wrong.
  Result<void> run();

  /// Goes through everything, also what `run` leaves to the ranks (each byte of
  /// the weights, each value of the data, the kernels' code), and says what it
  /// found. Only what depends on something that fails is left out. No rank is
  /// started, and nothing is left of the outputs.
  std::vector<CheckLine> checkAll();

  RunOptions options; // completed by what the plan says
  Descriptor planDescriptor, sharedMemory;
  std::optional<LoadedPlan> plan;
  std::optional<Mesh> mesh;
  std::optional<StepTimes> times; // of a rehearsal
  PlanReport report;
  std::optional<DataSource> data;
  std::optional<Evaluation> evaluation;
  Descriptor evalPlanDescriptor, evalMemory;
  uint64_t steps = 0;
  /// What --resume goes on from, the order of samples that it has then, and
  /// what
  /// --checkpoint writes.
  std::optional<FoundCheckpoint> resumed;
  ManifestData dataState;
  std::optional<CheckpointLayout> checkpoint;
  /// Held as long as the run may write there: two runs at once would not do.
  OutputLocks locks;
  uint64_t stepsBefore() const { return resumed ? resumed->manifest.step : 0; }
  std::vector<SaveOutput> saveOutputs; // those that are asked for
  std::optional<OutputFile> profileOutput, traceOutput, npzOutput;
  std::vector<OutputArray> outputs;

protected:
  /// Of `sharedMemory`: the outputs, or what weights are saved with.
  uint64_t sharedMemoryBytes() const;

private:
  /// Each says what it found. With `whole` it leaves nothing out.
  Result<std::string> checkPlan(bool whole);
  Result<std::string> checkOptions(bool whole);
  Result<std::string> checkCpu(bool whole);
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
  /// What each rank of a program needs to evaluate, and all ranks share.
  uint64_t evaluationBytes(const ProgramReport &program) const;

  std::optional<Weights> weights;
};

} // namespace polyrank::runtime
