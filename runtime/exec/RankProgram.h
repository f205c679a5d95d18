// A plan on one rank: its filled arena, and the interpreter that runs on it.

#pragma once

#include "runtime/data/DataSource.h"
#include "runtime/exec/InputReader.h"
#include "runtime/exec/Interpreter.h"
#include "runtime/exec/Shards.h"
#include "runtime/plan/LearningRates.h"
#include "runtime/plan/VerifyPlan.h"

#include <string>
#include <vector>

namespace polyrank::runtime {

struct Metric {
  std::string name;
  double value = 0;
};

/// Metrics that are on their way to the host.
class MetricReadings {
public:
  void add(const plan::Output &output, Reading reading) {
    readings.emplace_back(&output, std::move(reading));
  }
  /// Does not wait.
  bool areThere() const;
  /// Waits for the values.
  Result<std::vector<Metric>> values() const;

private:
  std::vector<std::pair<const plan::Output *, Reading>> readings;
};

/// The size of a copy of a program's state (copyState), in bytes.
uint64_t stateBytesOf(const plan::Program &program);

/// The bytes of a program's inputs on one rank, which it also has in memory of
/// the host while they are read.
uint64_t inputBytesOf(const plan::Program &program);

/// The inputs of all programs of a plan, each once.
std::vector<InputSpec> inputSpecsOf(const plan::Plan &plan);

/// The contents of a file of weights: which tensors, and which of their values.
struct SavedWeights {
  bool trainedAlone = false; // else all tensors
  /// The suffix of the state that replaces the value of each parameter that has
  /// it, such as "ema".
  std::string state{};
  /// The type to which floats are rounded in the file; UNDEFINED: that of the
  /// user's file. F32, in which they are computed, rounds none.
  ElementType floats = ElementType::F32;
};

/// The type of a stored tensor's elements in a file of weights. They are held
/// as `held`: by a program, or else by the user's file.
ElementType savedTypeOf(const plan::StoredTensor &stored, ElementType held,
                        const SavedWeights &what);

/// A stored tensor as the programs hold it.
struct SavedTensor {
  ElementType dtype = ElementType::F32; // of its arguments; if none, as stored
  bool complete = false;                // the arguments cover all its elements
  bool isTrained = false;
  bool isState = false; // its values are those of the replacing state
};
std::vector<SavedTensor> savedTensorsOf(const plan::Plan &plan,
                                        const SavedWeights &what = {});

/// A part of a stored tensor, in the dtype of its argument. Replicas on other
/// ranks have the same bits.
struct StoredShard {
  uint32_t stored = 0;
  Replica replica;
  Placement placement;
  const plan::Argument *argument = nullptr; // that holds it
};

/// The program of a plan that this rank runs. Order of calls: create,
/// loadParameters or restore, then fillInputs and runStep for each step;
/// metrics and outputs are those of the last step. Plan, device and
/// communicator must outlive it. So must a `rehearsal`: with it there are no
/// values, only runStep is called, and the arena is not touched.
class RankProgram {
public:
  static Result<std::unique_ptr<RankProgram>>
  create(const plan::Plan &plan, Device &device, Communicator &communicator,
         int64_t seed, const Links &links = {}, Rehearsal *rehearsal = nullptr);

  /// Fills parameters and stored state from `sources`, one for each of the
  /// plan's stored tensors.
  Result<void> loadParameters(const std::vector<StoredSource> &sources);

  /// Instead of loadParameters: fills each argument that `isWanted` by `load`,
  /// piece by piece, each with its placement in the stored tensor or in the
  /// whole state; the others keep their initial values. Padding is zero. An
  /// error of `load` is returned.
  Result<void>
  restore(const std::function<bool(const plan::Argument &)> &isWanted,
          const std::function<Result<void>(const plan::Argument &,
                                           const Placement &piece,
                                           std::byte *memory)> &load);

  /// Reloads one stored tensor between steps. Does not update which arguments
  /// were finite when they were loaded (checkFinite).
  Result<void> loadTensor(uint32_t stored, const StoredSource &source);

  /// Allocates memory of the device for a copy of what steps change:
  /// stateBytesOf bytes.
  Result<DeviceMemory> allocateStateCopy() const;
  /// Copies what steps change, parameters and state, within the device's
  /// memory. restoreState restores every bit of it.
  /// @{
  Result<void> copyState(const DeviceMemory &copy) {
    return moveState(copy, false);
  }
  Result<void> restoreState(const DeviceMemory &copy) {
    return moveState(copy, true);
  }
  /// @}

  /// Returns true if this argument was finite when it was loaded.
  bool wasFinite(const plan::Argument &argument) const;
  /// The first stored tensor of which this rank's part was finite when it was
  /// loaded and no longer is, by its number in the plan; nothing if there is
  /// none. Padding is ignored.
  Result<std::optional<uint32_t>> findNotFinite() const;
  /// The error that names such a tensor.
  Error notFiniteError(uint32_t stored) const;
  /// Fails if there is one.
  Result<void> checkFinite() const;

  /// Fails if this rank's part of what is saved has a finite value that
  /// `what.floats` cannot hold.
  Result<void> checkRange(const SavedWeights &what) const;

  /// Begins to read the inputs of the batch that fillInputs will take next, in
  /// the background. `data` stays until then.
  void readAhead(const DataSource &data, const Batch &batch) {
    if (reader)
      reader->begin(data, batch);
  }
  /// Fills the inputs of the rank's program; `data` has all inputs of the plan.
  /// Returns the error of reading them, also if they were read ahead. The time
  /// until they are there, from now on or since `began` (of eventClock), is
  /// that for which the step waits.
  Result<void> fillInputs(const DataSource &data, const Batch &batch,
                          int64_t began = eventClock());
  Result<void> fillInputs(const DataSource &data, Split split, uint64_t step) {
    return fillInputs(data, data.batchOf(split, step));
  }
  /// Runs step `step`, counted from 1, with its learning rates. It may still
  /// run when this returns; the one before it does not. What it took is known
  /// once it is over.
  Result<std::shared_ptr<const StepRun>> runStep(uint64_t step);
  /// Waits until at most `running` steps are not over.
  Result<void> finishSteps(size_t running) {
    return interpreter->settle(running);
  }

  /// Replaces the plan's learning rates.
  void setLearningRates(LearningRates given) { rates = std::move(given); }

  /// The metrics of the rank's program after the last step, which are read
  /// while other work goes on.
  Result<MetricReadings> readMetrics();
  /// Waits for them.
  Result<std::vector<Metric>> metrics();
  /// True if the rank's program has a metric of this name.
  bool hasMetric(std::string_view name) const;
  /// The learning rates of step `step`, counted from 1.
  std::vector<Metric> learningRates(uint64_t step) const;

  /// The parts of stored tensors, or of the state that replaces them, that this
  /// rank holds and no rank of an earlier program does.
  std::vector<StoredShard> storedShards(const SavedWeights &what) const;
  /// The same of another rank of the plan.
  std::vector<StoredShard> storedShardsOf(int64_t other,
                                          const SavedWeights &what) const;

  /// The number of the rank's program in the plan.
  uint32_t programNumber() const { return number; }
  /// The rank that reports for all ranks of the program.
  int64_t firstRank() const { return firstRankOf(mesh, program.at()); }

  /// Writes the part that this rank owns of output `number` of its program (a
  /// tensor) into the array of `samples` samples, at the samples of `from`.
  Result<void> storeOutput(size_t number, const Batch &from, uint64_t samples,
                           std::byte *array) const;

  /// Returns the contents of a buffer of the plan in the first microbatch,
  /// after waiting for all that this rank has enqueued so far.
  Result<Downloaded> download(const plan::BufferRef &buffer) const;

  /// The times of all steps that are over.
  const CommandTimes &times() const { return interpreter->times(); }
  /// The seconds for which they waited for their inputs.
  double dataSeconds() const {
    return 1e-9 * static_cast<double>(interpreter->inputTime());
  }

  void startTrace(Trace &trace) { interpreter->startTrace(trace); }
  void startProfile() { interpreter->startProfile(program); }
  /// The profile of the steps since startProfile; null without it.
  const Profile *profile() const {
    return interpreter->profile() ? &*interpreter->profile() : nullptr;
  }

private:
  RankProgram(const plan::Plan &plan, Device &device,
              Communicator &communicator,
              std::shared_ptr<const DeviceMemory> shared, DeviceMemory given)
      : plan(plan), mesh(plan), rank(communicator.rank()),
        number(programOf(plan, mesh, rank)),
        program(*plan.programs()->Get(number)), device(device),
        sharedRegion(std::move(shared)), privateRegion(std::move(given)),
        arena{sharedRegion->span(), privateRegion.span(), {}} {
    for (const plan::AxisList *group : *program.groups())
      arena.indices.push_back(mesh.linearIndex(rank, group->axes()));
  }

  Result<void> upload(DeviceSpan to, const Device::Fill &fill);
  /// Uploads all of a buffer, or its first bytes.
  Result<void> upload(const plan::BufferRef &buffer, const Device::Fill &fill);
  Result<void> upload(const plan::BufferRef &buffer, const void *value,
                      uint64_t bytes);
  Result<void> fillConstants(int64_t seed);
  Result<void> moveState(const DeviceMemory &copy, bool restores);
  Result<bool> isFinite(const plan::Argument &argument) const;
  /// The number of an argument of the rank's program.
  size_t numberOf(const plan::Argument &argument) const;
  /// Uploads an argument in pieces, each filled by `fill` at its placement in
  /// the stored tensor; padding is zero. Notes whether all of it is finite.
  using FillPiece =
      std::function<Result<void>(const Placement &placement, std::byte *piece)>;
  Result<void> uploadPieces(const plan::Argument &argument,
                            const FillPiece &fill, bool notes);
  Result<void> load(const plan::Argument &argument, const StoredSource &source,
                    bool notes);
  /// Reads the inputs of the rank's program into memory, one after another.
  Result<void> readInputs(const DataSource &data, const Batch &batch,
                          std::span<std::byte> memory);
  Result<void> readInput(const DataSource &data, const Batch &from,
                         size_t number, const plan::Argument &argument,
                         std::span<std::byte> shard);

  const plan::Plan &plan;
  Mesh mesh;
  int64_t rank;
  uint32_t number; // of the program
  const plan::Program &program;
  Device &device;
  std::shared_ptr<const DeviceMemory> sharedRegion;
  DeviceMemory privateRegion;
  ArenaView arena;
  LearningRates rates;
  bool isRehearsed = false; // without values; the arena stays empty
  std::unique_ptr<Interpreter> interpreter;
  /// The events after which anything else may begin: each upload begins after
  /// the step before it, each step after the uploads before it.
  EventSet latest;
  std::vector<bool> finite; // by argument: finite when it was loaded
  /// For each of the program's inputs, in their order, its number among the
  /// plan's inputs.
  std::vector<size_t> inputNumbers;
  std::vector<std::byte> row; // a row of an input whose inner dims are split
  std::unique_ptr<InputReader> reader; // null without inputs
  InputWait waited;                    // for the inputs of the next step
};

} // namespace polyrank::runtime
