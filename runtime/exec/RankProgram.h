// A plan on one rank: its arena, filled, and the interpreter over it.

#pragma once

#include "runtime/data/DataSource.h"
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

/// How large a copy of the state of a program is, in bytes (copyState).
uint64_t stateBytesOf(const plan::Program &program);

/// The inputs of all programs of a plan, each once.
std::vector<InputSpec> inputSpecsOf(const plan::Plan &plan);

/// What a file of weights holds: of which tensors, and which values.
struct SavedWeights {
  bool trainedAlone = false; // else all
  /// The suffix of the state that stands in for each parameter that has it.
  std::string state{};
};

/// A stored tensor as the programs keep it.
struct SavedTensor {
  DType dtype = DType::F32; // of its arguments; without any, as stored
  bool complete = false;    // the arguments cover all its elements
  bool isTrained = false;
  bool isState = false; // its values are those of the state that stands in
};
std::vector<SavedTensor> savedTensorsOf(const plan::Plan &plan,
                                        const SavedWeights &what = {});

/// A part of a stored tensor, in the dtype of its argument. Its replicas, on
/// other ranks, have the same bits.
struct StoredShard {
  uint32_t stored = 0;
  Replica replica;
  Placement placement;
  const plan::BufferRef *buffer = nullptr; // for RankProgram::download
};

/// The program that the rank runs of a plan. Order of calls: create,
/// loadParameters or restore, then fillInputs and runStep for each step;
/// metrics and outputs are those of the last step. Plan, device and transport
/// outlive it, and so does a `rehearsal`, with which there are no values:
/// runStep is all that is called, and the arena is not touched.
class RankProgram {
public:
  static Result<std::unique_ptr<RankProgram>>
  create(const plan::Plan &plan, Device &device, Transport &transport,
         int64_t seed, const Links &links = {}, Rehearsal *rehearsal = nullptr);

  /// Fills parameters, and state that is stored, from `sources`, one for each
  /// of the plan's stored tensors.
  Result<void> loadParameters(const std::vector<StoredSource> &sources);

  /// Instead of loadParameters: fills each argument that `isWanted` by `load`,
  /// whose error is returned; the others keep their initial values. Padding is
  /// zero.
  Result<void>
  restore(const std::function<bool(const plan::Argument &)> &isWanted,
          const std::function<Result<void>(const plan::Argument &,
                                           std::byte *shard)> &load);

  /// The same of one stored tensor, whenever no step runs. What this rank has
  /// of it is not compared with what was loaded before.
  Result<void> loadTensor(uint32_t stored, const StoredSource &source);

  /// What steps change: parameters and state, one behind the other. Restoring
  /// gives back every bit of it.
  Result<std::vector<std::byte>> copyState() const;
  Result<void> restoreState(std::span<const std::byte> copy);

  /// Fails where this rank's part of a stored argument, finite when it was
  /// loaded, is so no more. Padding may hold anything.
  Result<void> checkFinite() const;

  /// The inputs that the rank's program has, of `data` with all inputs of the
  /// plan.
  Result<void> fillInputs(const DataSource &data, const Batch &batch);
  Result<void> fillInputs(const DataSource &data, Split split, uint64_t step) {
    return fillInputs(data, data.batchOf(split, step));
  }
  /// Step `step`, from 1, with its learning rates.
  Result<void> runStep(uint64_t step);

  /// Instead of the plan's.
  void setLearningRates(LearningRates given) { rates = std::move(given); }

  /// The metrics that the rank's program has.
  Result<std::vector<Metric>> metrics() const;
  /// Of step `step`, from 1.
  std::vector<Metric> learningRates(uint64_t step) const;

  /// What this rank holds of the stored tensors, or of the state in their
  /// place, and no rank of an earlier program does.
  std::vector<StoredShard> storedShards(const SavedWeights &what) const;

  /// The number of the rank's program in the plan.
  uint32_t programNumber() const { return number; }
  /// Who reports for all ranks that run it.
  int64_t firstRank() const { return firstRankOf(mesh, program.at()); }

  /// Writes what this rank owns of output `number` of its program (a tensor)
  /// into the array of `samples` samples, as those of `from`.
  Result<void> storeOutput(size_t number, const Batch &from, uint64_t samples,
                           std::byte *array) const;

  /// What a buffer of the plan holds, in the first microbatch, once all is done
  /// that this rank has computed so far.
  Result<Downloaded> download(const plan::BufferRef &buffer) const;

  const CommandTimes &times() const { return interpreter->times(); }

  void startTrace(Trace &trace) { interpreter->startTrace(trace); }
  void startProfile() { interpreter->startProfile(program); }
  /// Of the steps since then; null without.
  const Profile *profile() const {
    return interpreter->profile() ? &*interpreter->profile() : nullptr;
  }

private:
  RankProgram(const plan::Plan &plan, Device &device, Transport &transport,
              DeviceMemory given)
      : plan(plan), mesh(plan), rank(transport.rank()),
        number(programOf(plan, mesh, rank)),
        program(*plan.programs()->Get(number)), device(device),
        privateRegion(std::move(given)),
        arena{transport.sharedMemory(), privateRegion.span(), {}} {
    for (const plan::AxisList *group : *program.groups())
      arena.indices.push_back(mesh.linearIndex(rank, group->axes()));
  }

  Result<void> upload(DeviceSpan to, const Device::Fill &fill);
  /// All of a buffer, or its first bytes.
  Result<void> upload(const plan::BufferRef &buffer, const Device::Fill &fill);
  Result<void> upload(const plan::BufferRef &buffer, const void *value,
                      uint64_t bytes);
  Result<void> fillConstants(int64_t seed);
  /// Which of the stored arguments are finite now.
  Result<void> noteFinite();
  Result<bool> isFinite(const plan::Argument &argument) const;
  Result<void> load(const plan::Argument &argument, const StoredSource &source);
  Result<void> fillInput(const DataSource &data, const Batch &from,
                         size_t number, const plan::Argument &argument,
                         std::span<std::byte> shard);

  const plan::Plan &plan;
  Mesh mesh;
  int64_t rank;
  uint32_t number; // of the program
  const plan::Program &program;
  Device &device;
  DeviceMemory privateRegion;
  ArenaView arena;
  LearningRates rates;
  bool isRehearsed = false; // without values: its arena stays empty
  std::unique_ptr<Interpreter> interpreter;
  /// Of all that the device was told so far: each upload waits for the step
  /// before, each step for what was uploaded.
  QueueTicket latest;
  std::vector<bool> finite; // by argument: what was loaded
  /// Of the program's inputs, in their order: the numbers that they have among
  /// those of the plan.
  std::vector<size_t> inputNumbers;
  std::vector<std::byte> row; // of an input whose inner dims are split
};

} // namespace polyrank::runtime
