// Fills a rank's arena: constants, parameters, state, inputs.

#include "runtime/exec/RankProgram.h"

#include "runtime/exec/CheckpointLayout.h"
#include "support/ElementValues.h"
#include "support/Failpoint.h"
#include "support/arrays/Values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <set>
#include <utility>

namespace polyrank::runtime {
namespace {

bool isInput(const plan::Argument &argument) {
  return argument.role() == plan::Role::Input ||
         argument.role() == plan::Role::Labels;
}

/// Calls body(program, argument) for each argument of a plan, and of those with
/// the same name only for the first.
template <typename Body>
void forEachArgument(const plan::Plan &plan, const Body &body) {
  std::set<std::string_view> seen;
  for (uint32_t number = 0; number < plan.programs()->size(); ++number)
    for (const plan::Argument *argument :
         *plan.programs()->Get(number)->arguments())
      if (seen.insert(argument->name()->string_view()).second)
        body(number, *argument);
}

/// Optimizer state has the view of its parameter only so that it is saved like
/// it.
bool isStored(const plan::Argument &argument) {
  return argument.view() && !argument.state_of();
}

/// Zeroes a shard that has padding.
void clearPadding(const std::vector<BlockDim> &blocks,
                  std::span<std::byte> shard) {
  bool hasPadding =
      std::any_of(blocks.begin(), blocks.end(), [](const BlockDim &block) {
        return block.valid != block.block;
      });
  if (hasPadding)
    std::memset(shard.data(), 0, shard.size());
}

double scalarAt(ElementType type, const std::byte *at) {
  return visitElements(type, [&]<typename T>(T) {
    return static_cast<double>(Arithmetic<T>(loadElement<T>(at)));
  });
}

} // namespace

std::vector<InputSpec> inputSpecsOf(const plan::Plan &plan) {
  std::vector<InputSpec> specs;
  forEachArgument(plan, [&](uint32_t, const plan::Argument &each) {
    const plan::Argument *argument = &each;
    if (!isInput(*argument))
      return;
    InputSpec spec;
    spec.name = argument->name()->str();
    spec.labels = argument->role() == plan::Role::Labels;
    spec.dtype = ElementType(argument->dtype());
    for (uint32_t d = 2; d < argument->dims()->size(); ++d)
      spec.rowShape.push_back(argument->dims()->Get(d)->size());
    spec.range = {argument->index_limit(), argument->index_ignore()};
    spec.batchDim = argument->batch_dim();
    specs.push_back(std::move(spec));
  });
  return specs;
}

Result<std::unique_ptr<RankProgram>>
RankProgram::create(const plan::Plan &plan, Device &device,
                    Communicator &communicator, int64_t seed,
                    const Links &links, Rehearsal *rehearsal) {
  const plan::Program &program =
      *plan.programs()->Get(programOf(plan, Mesh(plan), communicator.rank()));
  // A rehearsal uses no memory.
  POLYRANK_ASSIGN(shared, device.allocate(rehearsal ? 0 : program.shared_size(),
                                          arenaAlignment, Sharing::Peers));
  auto registered = std::make_shared<const DeviceMemory>(std::move(shared));
  if (Result<void> done = communicator.registerMemory(registered); !done)
    return done.error();
  Result<DeviceMemory> region =
      device.allocate(rehearsal ? 0 : program.private_size(), arenaAlignment);
  if (!region)
    return region.error();
  std::unique_ptr<RankProgram> rank(new RankProgram(
      plan, device, communicator, std::move(registered), *std::move(region)));
  Result<Interpreter> interpreter = Interpreter::prepare(
      program, plan.microbatches(),
      {rank->mesh, rank->rank, rank->arena, device, communicator, rehearsal},
      links);
  if (!interpreter)
    return interpreter.error();
  rank->interpreter = std::make_unique<Interpreter>(*std::move(interpreter));
  POLYRANK_ASSIGN(rates, LearningRates::of(plan));
  rank->rates = std::move(rates);
  rank->isRehearsed = rehearsal != nullptr;
  // Arguments that are not loaded keep their initial values.
  for (const plan::Argument *argument : *program.arguments())
    rank->finite.push_back(!rehearsal && isStored(*argument) &&
                           std::isfinite(argument->init()));
  std::vector<InputSpec> specs = inputSpecsOf(plan);
  for (const plan::Argument *argument : *program.arguments())
    if (isInput(*argument))
      rank->inputNumbers.push_back(static_cast<size_t>(
          std::find_if(specs.begin(), specs.end(),
                       [&](const InputSpec &spec) {
                         return spec.name == argument->name()->string_view();
                       }) -
          specs.begin()));
  if (uint64_t bytes = inputBytesOf(program); bytes && !rehearsal)
    rank->reader = std::make_unique<InputReader>(
        bytes, [rank = rank.get()](const DataSource &data, const Batch &batch,
                                   std::span<std::byte> memory) {
          return rank->readInputs(data, batch, memory);
        });
  if (!rank->isRehearsed)
    if (Result<void> filled = rank->fillConstants(seed); !filled)
      return filled.error();
  return rank;
}

Result<void> RankProgram::upload(DeviceSpan to, const Device::Fill &fill) {
  POLYRANK_ASSIGN(uploaded, device.upload(to, fill, latest));
  latest.replace(uploaded);
  return {};
}

Result<void> RankProgram::upload(const plan::BufferRef &buffer,
                                 const Device::Fill &fill) {
  return upload(arena.spanOf(buffer), fill);
}

Result<void> RankProgram::upload(const plan::BufferRef &buffer,
                                 const void *value, uint64_t bytes) {
  return upload(arena.spanOf(buffer).part(0, bytes),
                [value](std::span<std::byte> memory) -> Result<void> {
                  std::memcpy(memory.data(), value, memory.size());
                  return {};
                });
}

Result<Downloaded> RankProgram::download(const plan::BufferRef &buffer) const {
  return device.download(arena.spanOf(buffer), latest);
}

Result<void> RankProgram::fillConstants(int64_t seed) {
  if (program.constants())
    for (const plan::Constant *constant : *program.constants())
      if (Result<void> done =
              upload(*constant->buffer(), constant->data()->data(),
                     constant->data()->size());
          !done)
        return done;
  if (program.axis_indices())
    for (const plan::AxisIndex *axis : *program.axis_indices()) {
      int64_t index = mesh.linearIndex(rank, axis->axes()->axes());
      if (Result<void> done = upload(*axis->buffer(), &index, sizeof(index));
          !done)
        return done;
    }
  for (const plan::Argument *argument : *program.arguments()) {
    Result<void> done;
    if (argument->role() == plan::Role::Seed)
      done = upload(*argument->buffer(), &seed, sizeof(seed));
    if (argument->role() == plan::Role::State && argument->init() != 0)
      done = upload(*argument->buffer(),
                    [&](std::span<std::byte> memory) -> Result<void> {
                      auto blocks = blockOf(mesh, rank, argument->dims());
                      clearPadding(blocks, memory);
                      fillShard(blocks, ElementType(argument->dtype()),
                                argument->init(), memory.data());
                      return {};
                    });
    if (!done)
      return done;
  }
  return {};
}

Result<void> RankProgram::uploadPieces(const plan::Argument &argument,
                                       const FillPiece &fill, bool notes) {
  auto type = ElementType(argument.dtype());
  DeviceSpan shard = arena.spanOf(*argument.buffer());
  bool isWell = true;
  for (const ShardPiece &piece :
       piecesOf(blockOf(mesh, rank, argument.dims()), bytesOf(type)))
    if (Result<void> done = upload(
            shard.part(piece.offset, piece.bytes),
            [&](std::span<std::byte> memory) -> Result<void> {
              clearPadding(piece.blocks, memory);
              if (Result<void> filled = fill(
                      keptPlacementOf(piece.blocks, argument), memory.data());
                  !filled)
                return filled;
              isWell &=
                  !notes || isFiniteShard(piece.blocks, type, memory.data());
              return {};
            });
        !done)
      return done;
  if (notes)
    finite[numberOf(argument)] = isWell && isStored(argument);
  return {};
}

Result<void> RankProgram::load(const plan::Argument &argument,
                               const StoredSource &source, bool notes) {
  const char *name =
      plan.stored()->Get(argument.view()->stored())->name()->c_str();
  if (!source.read)
    return Error{fmt::format("parameter '{}' has no values in the model's "
                             "file: give them with --init",
                             name)};
  ElementType type = ElementType(argument.dtype());
  if (!canLoad(source.dtype, type))
    return Error{fmt::format("parameter '{}' is stored as {} and used as {}",
                             name, nameOf(source.dtype), nameOf(type))};
  Result<void> loaded = uploadPieces(
      argument,
      [&](const Placement &placement, std::byte *piece) {
        return loadShard(placement, source, type, piece);
      },
      notes);
  if (!loaded)
    return loaded.error().saying(
        fmt::format("parameter '{}': {}", name, loaded.error().message));
  return {};
}

Result<void> RankProgram::loadTensor(uint32_t stored,
                                     const StoredSource &source) {
  for (const plan::Argument *argument : *program.arguments())
    if (isStored(*argument) && argument->view()->stored() == stored)
      if (Result<void> loaded = load(*argument, source, false); !loaded)
        return loaded;
  return {};
}

uint64_t stateBytesOf(const plan::Program &program) {
  uint64_t sum = 0;
  for (const plan::Argument *argument : *program.arguments())
    if (isKept(*argument))
      sum += argument->buffer()->size();
  return sum;
}

Result<DeviceMemory> RankProgram::allocateStateCopy() const {
  return device.allocate(stateBytesOf(program), arenaAlignment);
}

Result<void> RankProgram::moveState(const DeviceMemory &copy, bool restores) {
  uint64_t offset = 0;
  EventSet all;
  for (const plan::Argument *argument : *program.arguments())
    if (isKept(*argument)) {
      DeviceSpan held = arena.spanOf(*argument->buffer()),
                 kept = copy.span().part(offset, held.size);
      POLYRANK_ASSIGN(copied, restores ? device.copy(kept, held, latest)
                                       : device.copy(held, kept, latest));
      all.add(copied);
      offset += held.size;
    }
  latest = all;
  return {};
}

Result<void>
RankProgram::loadParameters(const std::vector<StoredSource> &sources) {
  for (const plan::Argument *argument : *program.arguments()) {
    if (!isStored(*argument))
      continue;
    const StoredSource &source = sources[argument->view()->stored()];
    bool parameter = argument->role() == plan::Role::Parameter;
    if (!source.read && !parameter)
      continue; // keeps its initial value
    if (Result<void> loaded = load(*argument, source, true); !loaded)
      return loaded;
  }
  return {};
}

Result<void> RankProgram::restore(
    const std::function<bool(const plan::Argument &)> &isWanted,
    const std::function<Result<void>(const plan::Argument &,
                                     const Placement &piece, std::byte *memory)>
        &load) {
  for (const plan::Argument *argument : *program.arguments())
    if (isWanted(*argument))
      if (Result<void> loaded = uploadPieces(
              *argument,
              [&](const Placement &placement, std::byte *piece) {
                return load(*argument, placement, piece);
              },
              true);
          !loaded)
        return loaded;
  return {};
}

bool RankProgram::wasFinite(const plan::Argument &argument) const {
  return finite[numberOf(argument)];
}

size_t RankProgram::numberOf(const plan::Argument &argument) const {
  const auto &all = *program.arguments();
  return static_cast<size_t>(std::find(all.begin(), all.end(), &argument) -
                             all.begin());
}

Result<bool> RankProgram::isFinite(const plan::Argument &argument) const {
  POLYRANK_ASSIGN(shard, download(*argument.buffer()));
  return isFiniteShard(blockOf(mesh, rank, argument.dims()),
                       ElementType(argument.dtype()), shard.data());
}

Result<std::optional<uint32_t>> RankProgram::findNotFinite() const {
  std::optional<uint32_t> first;
  for (uint32_t a = 0; a < finite.size(); ++a) {
    const plan::Argument &argument = *program.arguments()->Get(a);
    if (!finite[a] || (first && argument.view()->stored() > *first))
      continue;
    POLYRANK_ASSIGN(isStillFinite, isFinite(argument));
    if (!isStillFinite)
      first = argument.view()->stored();
  }
  return first;
}

Result<void> RankProgram::checkFinite() const {
  POLYRANK_ASSIGN(first, findNotFinite());
  if (first)
    return notFiniteError(*first);
  return {};
}

Error RankProgram::notFiniteError(uint32_t stored) const {
  return {fmt::format("'{}' holds NaN or infinite values",
                      plan.stored()->Get(stored)->name()->str()),
          Error::Fault::NotFinite};
}

Result<void> RankProgram::checkRange(const SavedWeights &what) const {
  for (const StoredShard &shard : storedShards(what)) {
    const plan::StoredTensor &stored = *plan.stored()->Get(shard.stored);
    ElementType held = ElementType(shard.argument->dtype()),
                saved = savedTypeOf(stored, held, what);
    if (saved == held)
      continue;
    POLYRANK_ASSIGN(data, download(*shard.argument->buffer()));
    if (!isWithinShard(saved, blockOf(mesh, rank, shard.argument->dims()), held,
                       data.data()))
      return Error{fmt::format("'{}' has a value beyond {}, the largest of {}; "
                               "save it as {}fp32 (--save-dtype)",
                               stored.name()->str(), largestOf(saved),
                               longNameOf(saved),
                               saved == ElementType::F16 ? "bf16 or " : ""),
                   Error::Fault::NotFinite};
  }
  return {};
}

uint64_t inputBytesOf(const plan::Program &program) {
  uint64_t sum = 0;
  for (const plan::Argument *argument : *program.arguments())
    if (isInput(*argument))
      sum += argument->buffer()->size();
  return sum;
}

Result<void> RankProgram::fillInputs(const DataSource &data, const Batch &batch,
                                     int64_t began) {
  waited = {};
  if (!reader) {
    waited = {began, eventClock()};
    return {};
  }
  POLYRANK_ASSIGN(staged, reader->take(data, batch));
  for (const plan::Argument *argument : *program.arguments())
    if (isInput(*argument)) {
      uint64_t bytes = argument->buffer()->size();
      if (Result<void> filled =
              upload(*argument->buffer(), staged.data(), bytes);
          !filled)
        return filled;
      staged = staged.subspan(bytes);
    }
  waited = {began, eventClock()};
  return {};
}

Result<void> RankProgram::readInputs(const DataSource &data, const Batch &batch,
                                     std::span<std::byte> memory) {
  auto input = inputNumbers.begin();
  for (const plan::Argument *argument : *program.arguments())
    if (isInput(*argument)) {
      uint64_t bytes = argument->buffer()->size();
      if (Result<void> got =
              readInput(data, batch, *input++, *argument, memory.first(bytes));
          !got)
        return got;
      memory = memory.subspan(bytes);
    }
  return {};
}

Result<void> RankProgram::readInput(const DataSource &data, const Batch &from,
                                    size_t number,
                                    const plan::Argument &argument,
                                    std::span<std::byte> shard) {
  std::vector<BlockDim> blocks = blockOf(mesh, rank, argument.dims());
  clearPadding(blocks, shard);
  int64_t element = elementSize(argument.dtype());
  int64_t localRow = element, globalRow = element;
  for (size_t d = 2; d < blocks.size(); ++d) {
    localRow *= blocks[d].block;
    globalRow *= blocks[d].size;
  }
  bool wholeRows = true; // false if a block of padding has the same size
  for (size_t d = 2; d < blocks.size(); ++d)
    wholeRows &=
        blocks[d].block == blocks[d].size && blocks[d].valid == blocks[d].size;
  Placement placement = placementIn(blocks, 2);
  const BlockDim &batch = blocks[1];
  for (int64_t microbatch = 0; microbatch < blocks[0].size; ++microbatch) {
    int64_t first = microbatch * batch.size + batch.start;
    std::byte *rows = shard.data() + microbatch * batch.block * localRow;
    if (wholeRows) {
      Result<void> got =
          data.read(from, number, first, first + batch.valid, rows);
      if (!got)
        return got;
      continue;
    }
    row.resize(globalRow);
    for (int64_t b = 0; b < batch.valid; ++b) {
      Result<void> got =
          data.read(from, number, first + b, first + b + 1, row.data());
      if (!got)
        return got;
      fetchShard(placement, element, row.data(), rows + b * localRow);
    }
  }
  if (failpoint("input.filled") == failWithNan)
    std::fill_n(shard.data(), element, std::byte(0xff)); // a NaN for floats
  return {};
}

Result<std::shared_ptr<const StepRun>> RankProgram::runStep(uint64_t step) {
  for (const plan::Argument *argument : *program.arguments())
    if (argument->role() == plan::Role::LearningRate && !isRehearsed) {
      double rate = rates.at(*argument, step - 1);
      if (Result<void> done = upload(*argument->buffer(), &rate, sizeof(rate));
          !done)
        return done.error();
    }
  return interpreter->runStep(step, latest, std::exchange(waited, InputWait()));
}

std::vector<Metric> RankProgram::learningRates(uint64_t step) const {
  std::vector<Metric> result;
  for (const plan::Argument *argument : *program.arguments())
    if (argument->role() == plan::Role::LearningRate)
      result.push_back(
          {LearningRates::nameOf(*argument), rates.at(*argument, step - 1)});
  return result;
}

bool MetricReadings::areThere() const {
  return std::all_of(readings.begin(), readings.end(),
                     [](const auto &each) { return each.second.isThere(); });
}

Result<std::vector<Metric>> MetricReadings::values() const {
  std::vector<Metric> result;
  for (const auto &[output, reading] : readings) {
    POLYRANK_ASSIGN(bytes, reading.bytes());
    result.push_back({output->name()->str(),
                      scalarAt(ElementType(output->dtype()), bytes.data())});
  }
  return result;
}

Result<MetricReadings> RankProgram::readMetrics() {
  MetricReadings readings;
  EventSet before = latest;
  for (const plan::Output *output : *program.outputs())
    if (output->kind() == plan::OutputKind::Metric) {
      POLYRANK_ASSIGN(reading,
                      device.read(arena.spanOf(*output->buffer()), before));
      // What comes next may write to the same memory.
      latest.add(reading.event());
      readings.add(*output, std::move(reading));
    }
  return readings;
}

Result<std::vector<Metric>> RankProgram::metrics() {
  POLYRANK_ASSIGN(readings, readMetrics());
  return readings.values();
}

bool RankProgram::hasMetric(std::string_view name) const {
  return std::any_of(program.outputs()->begin(), program.outputs()->end(),
                     [&](const plan::Output *output) {
                       return output->kind() == plan::OutputKind::Metric &&
                              output->name()->string_view() == name;
                     });
}

namespace {

/// Calls body(program, argument, isState) for each argument that holds values
/// of stored tensors; isState is true for state that replaces a parameter.
template <typename Body>
void forEachSaved(const plan::Plan &plan, const std::string &suffix,
                  const Body &body) {
  auto isState = [&](const plan::Argument &argument) {
    return !suffix.empty() && argument.view() && argument.state_of() &&
           argument.state_suffix() &&
           argument.state_suffix()->string_view() == suffix;
  };
  std::set<uint32_t> replaced;
  forEachArgument(plan, [&](uint32_t, const plan::Argument &argument) {
    if (isState(argument))
      replaced.insert(argument.view()->stored());
  });
  forEachArgument(plan, [&](uint32_t program, const plan::Argument &argument) {
    if (isState(argument))
      body(program, argument, true);
    else if (isStored(argument) &&
             !replaced.contains(argument.view()->stored()))
      body(program, argument, false);
  });
}

} // namespace

ElementType savedTypeOf(const plan::StoredTensor &stored, ElementType held,
                        const SavedWeights &what) {
  ElementType inFile = ElementType(stored.dtype());
  if (stored.complex() || !isFloat(held))
    return held;
  if (what.floats == ElementType::UNDEFINED)
    return isFloat(inFile) ? inFile : held;
  // A tensor that no program holds may be wider than the computation; it is
  // saved as wide as the file has it.
  return what.floats == ElementType::F32 ? held : what.floats;
}

std::vector<SavedTensor> savedTensorsOf(const plan::Plan &plan,
                                        const SavedWeights &what) {
  std::vector<SavedTensor> saved;
  std::vector<int64_t> missing;
  if (plan.stored())
    for (const plan::StoredTensor *stored : *plan.stored()) {
      int64_t elements = 1;
      if (stored->shape())
        for (int64_t size : *stored->shape())
          elements *= size;
      // No program has these complex numbers; files have complex numbers only
      // of F32.
      ElementType dtype =
          stored->complex() ? ElementType::F32 : ElementType(stored->dtype());
      saved.push_back({dtype, elements == 0});
      missing.push_back(elements);
    }
  forEachSaved(plan, what.state,
               [&](uint32_t, const plan::Argument &argument, bool isState) {
                 uint32_t number = argument.view()->stored();
                 int64_t elements = 1;
                 if (argument.dims())
                   for (const plan::Dim *dim : *argument.dims())
                     elements *= dim->size();
                 saved[number].dtype = ElementType(argument.dtype());
                 saved[number].complete = (missing[number] -= elements) <= 0;
                 saved[number].isState = isState;
               });
  forEachArgument(plan, [&](uint32_t, const plan::Argument &argument) {
    if (argument.role() == plan::Role::Parameter && argument.view() &&
        argument.trainable() && !isInteger(ElementType(argument.dtype())))
      saved[argument.view()->stored()].isTrained = true;
  });
  return saved;
}

std::vector<StoredShard>
RankProgram::storedShards(const SavedWeights &what) const {
  return storedShardsOf(rank, what);
}

std::vector<StoredShard>
RankProgram::storedShardsOf(int64_t other, const SavedWeights &what) const {
  std::vector<StoredShard> shards;
  uint32_t others = programOf(plan, mesh, other);
  const auto *at = plan.programs()->Get(others)->at();
  forEachSaved(plan, what.state,
               [&](uint32_t holder, const plan::Argument &argument, bool) {
                 if (holder == others)
                   shards.push_back(
                       {argument.view()->stored(),
                        replicaOf(mesh, other, argument.dims(), at),
                        placementOf(mesh, other, argument), &argument});
               });
  return shards;
}

Result<void> RankProgram::storeOutput(size_t number, const Batch &from,
                                      uint64_t samples,
                                      std::byte *array) const {
  const plan::Output &output = *program.outputs()->Get(number);
  if (!ownsBlock(mesh, rank, output.dims(), program.at()))
    return {};
  POLYRANK_ASSIGN(shard, download(*output.buffer()));
  std::vector<BlockDim> blocks = blockOf(mesh, rank, output.dims());
  BlockDim microbatches = blocks[0], batch = blocks[1];
  blocks.erase(blocks.begin(), blocks.begin() + 2);
  bool hasBatch = output.batch_dim() != noBatch;
  int64_t element = elementSize(output.dtype()), localRow = element,
          sampleBytes = element;
  for (size_t d = 0; d < blocks.size(); ++d) {
    localRow *= blocks[d].block;
    if (hasBatch && int64_t(d) >= output.batch_dim())
      sampleBytes *= blocks[d].size;
  }
  // The array's dim of samples is where the model has the batch dim.
  if (hasBatch)
    blocks.insert(
        blocks.begin() + output.batch_dim(),
        {.size = int64_t(samples), .block = 1, .start = 0, .valid = 1});
  Placement placement = placementIn(blocks, 0);
  uint64_t end = std::min(samples, from.first + from.count);
  for (int64_t microbatch = 0; microbatch < microbatches.size; ++microbatch)
    for (int64_t b = 0; b < batch.valid; ++b) {
      const std::byte *row =
          shard.data() + (microbatch * batch.block + b) * localRow;
      uint64_t sample = from.first + microbatch * batch.size + batch.start + b;
      if (!hasBatch)
        storeShard(placement, element, row, array);
      else if (sample < end)
        storeShard(placement, element, row, array + sample * sampleBytes);
    }
  return {};
}

} // namespace polyrank::runtime
