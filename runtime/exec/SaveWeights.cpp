// Assembles the ranks' shards, window by window.

#include "runtime/exec/SaveWeights.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <map>

namespace polyrank::runtime {
namespace {

// The memory has two halves: while one is written, the ranks fill the other.
// Ranks synchronize once per round, so rounds are large.
constexpr uint64_t roundBytes = saveMemoryBytes / 2;
constexpr uint64_t grain = 128 << 10; // of a thread or replica

/// A stored tensor under one of its names, in the file.
struct Place {
  uint64_t begin, end;
  uint32_t stored;
  ElementType dtype; // in the file
  uint64_t elementBytes;
};

/// Calls body(place, begin, end) for each tensor between two offsets of the
/// file; `begin` and `end` are bytes of the tensor.
template <typename Body>
void forEachPlace(const std::vector<Place> &places, uint64_t begin,
                  uint64_t end, const Body &body) {
  auto place = std::partition_point(
      places.begin(), places.end(),
      [&](const Place &place) { return place.end <= begin; });
  for (; place != places.end() && place->begin < end; ++place)
    body(*place, std::max(begin, place->begin) - place->begin,
         std::min(end, place->end) - place->begin);
}

class Saver {
public:
  Saver(const LoadedPlan &plan, const RankProgram &program,
        const Weights &initial, JobMember &job, const SaveOptions &options)
      : program(program), initial(initial), job(job), options(options),
        saved(savedTensorsOf(*plan.plan, options.what)) {
    for (const SavedEntry &entry : options.target.entries) {
      numbers.push_back(entry.stored);
      tensors.push_back(entry.tensor);
    }
    for (StoredShard &shard : program.storedShards(options.what))
      shards[shard.stored].push_back({std::move(shard), std::nullopt});
  }

  Result<void> run() {
    POLYRANK_ASSIGN(opened, open());
    SafetensorsWriter &writer = file.emplace(std::move(opened));
    for (size_t t = 0; t < tensors.size(); ++t) {
      uint64_t length = bytesOf(tensors[t].dtype);
      for (int64_t size : tensors[t].shape)
        length *= size;
      if (length > 0)
        places.push_back({writer.offsetOf(t), writer.offsetOf(t) + length,
                          numbers[t], tensors[t].dtype,
                          uint64_t(bytesOf(tensors[t].dtype))});
    }
    std::sort(places.begin(), places.end(),
              [](const Place &a, const Place &b) { return a.begin < b.begin; });
    // Rounds begin at multiples of `roundBytes` in the file, so that no page is
    // written twice.
    for (uint64_t begin = writer.dataBegin(); begin < writer.size();) {
      uint64_t round = begin / roundBytes,
               end = std::min((round + 1) * roundBytes, writer.size());
      options.onProgress(begin - writer.dataBegin(),
                         writer.size() - writer.dataBegin());
      job.beat();
      if (Result<void> done =
              runRound(writer, begin, end,
                       options.memory.data() + begin % saveMemoryBytes);
          !done)
        return done;
      begin = end;
    }
    if (Result<void> done = awaitWriting(); !done)
      return done;
    options.onProgress(writer.size() - writer.dataBegin(),
                       writer.size() - writer.dataBegin());
    if (Result<void> finished = writer.finish(); !finished)
      return finished;
    return job.barrier();
  }

private:
  Result<SafetensorsWriter> open() {
    if (job.rank() != 0) {
      if (Result<void> created = job.barrier(); !created)
        return created.error();
      return SafetensorsWriter::join(options.target.path, options.file, tensors,
                                     savedMetadata());
    }
    Result<SafetensorsWriter> writer = SafetensorsWriter::create(
        options.target.path, options.file, tensors, savedMetadata());
    if (!writer)
      return writer;
    if (Result<void> created = job.barrier(); !created)
      return created.error();
    return writer;
  }

  Result<void> runRound(SafetensorsWriter &writer, uint64_t begin, uint64_t end,
                        std::byte *memory) {
    uint64_t start = begin / grain * grain,
             window = ((end - start) / job.worldSize() / grain + 1) *
                      grain; // of each rank
    auto bound = [&](uint64_t number) {
      return std::clamp(start + number * window, begin, end);
    };
    uint64_t mine = bound(job.rank()), mineEnd = bound(job.rank() + 1);
    if (Result<void> copied = copyInitial(begin, end, mine, mineEnd, memory);
        !copied)
      return copied;
    if (Result<void> there = downloadShards(begin, end); !there)
      return there;
    options.parallelFor(
        static_cast<int64_t>((end - start + grain - 1) / grain), 1,
        [&](int64_t from, int64_t to) {
          for (uint64_t piece = from; piece < uint64_t(to); ++piece) {
            uint64_t at = std::max(start + piece * grain, begin);
            storeShards(at, std::min(start + (piece + 1) * grain, end), piece,
                        memory + (at - begin));
          }
        });
    // Now the other half is free on this rank, and after the barrier on all.
    if (Result<void> done = awaitWriting(); !done)
      return done;
    if (Result<void> all = job.barrier(); !all)
      return all;
    std::span<const std::byte> data(memory + (mine - begin), mineEnd - mine);
    if (!data.empty())
      writing = std::async(std::launch::async, [&writer, mine, data] {
        return writer.writeData(mine, data);
      });
    return {};
  }

  Result<void> awaitWriting() {
    return writing.valid() ? writing.get() : Result<void>();
  }

  /// Tensors that no rank holds completely are copied first; the ranks then
  /// overwrite their parts.
  Result<void> copyInitial(uint64_t begin, uint64_t end, uint64_t mine,
                           uint64_t mineEnd, std::byte *memory) {
    bool any = false;
    forEachPlace(places, begin, end,
                 [&](const Place &place, uint64_t, uint64_t) {
                   any |= !saved[place.stored].complete;
                 });
    if (!any)
      return {};
    Result<void> result;
    forEachPlace(places, mine, mineEnd,
                 [&](const Place &place, uint64_t from, uint64_t to) {
                   if (result && !saved[place.stored].complete)
                     result = loadInitial(
                         place, static_cast<int64_t>(from / place.elementBytes),
                         static_cast<int64_t>(to / place.elementBytes),
                         memory + (place.begin + from - begin));
                 });
    if (!result)
      return result;
    return job.barrier();
  }

  /// Loads elements [begin, end) of a stored tensor from its source; zeros if
  /// it has none.
  Result<void> loadInitial(const Place &place, int64_t begin, int64_t end,
                           std::byte *into) const {
    const StoredSource &source = initial.sources()[place.stored];
    if (!source.read) {
      std::memset(into, 0, (end - begin) * place.elementBytes);
      return {};
    }
    // A matrix that is stored transposed is read by parts of a row or by whole
    // rows.
    int64_t columns = source.columns ? source.columns : end;
    while (begin < end) {
      int64_t upTo = begin % columns || end - begin < columns
                         ? std::min(end, (begin / columns + 1) * columns)
                         : end / columns * columns;
      Placement part;
      part.storedBase = begin;
      part.extents.push_back({upTo - begin, 1, 1});
      if (Result<void> loaded = loadShard(part, source, place.dtype, into);
          !loaded)
        return loaded;
      into += (upTo - begin) * place.elementBytes;
      begin = upTo;
    }
    return {};
  }

  /// Downloads the shards that have a part in this round of the file, and
  /// releases the others.
  Result<void> downloadShards(uint64_t begin, uint64_t end) {
    std::map<uint32_t, ElementType> needed;
    forEachPlace(places, begin, end,
                 [&](const Place &place, uint64_t, uint64_t) {
                   needed.emplace(place.stored, place.dtype);
                 });
    for (auto &[stored, held] : shards)
      for (Held &each : held) {
        auto wanted = needed.find(stored);
        if (wanted == needed.end()) {
          each.data.reset();
        } else if (!each.data) {
          POLYRANK_ASSIGN(data,
                          program.download(*each.shard.argument->buffer()));
          each.data.emplace(
              rounded(std::move(data), saved[stored].dtype, wanted->second));
        }
      }
    return {};
  }

  /// The values in the type that the file has for them.
  static Downloaded rounded(Downloaded held, ElementType from, ElementType to) {
    if (from == to)
      return held;
    int64_t count = static_cast<int64_t>(held.bytes().size()) / bytesOf(from);
    size_t bytes = static_cast<size_t>(count * bytesOf(to));
    auto copy = std::make_unique<std::byte[]>(bytes);
    convertElements(from, held.data(), count, to, copy.get());
    return Downloaded(std::move(copy), bytes);
  }

  /// The replicas of a block take turns with the pieces of the file.
  void storeShards(uint64_t begin, uint64_t end, uint64_t piece,
                   std::byte *memory) const {
    forEachPlace(
        places, begin, end,
        [&](const Place &place, uint64_t from, uint64_t to) {
          auto held = shards.find(place.stored);
          if (held == shards.end())
            return;
          for (const auto &[shard, data] : held->second)
            if (static_cast<int64_t>(piece) % shard.replica.count ==
                shard.replica.index)
              storeShardWithin(
                  shard.placement, static_cast<int64_t>(place.elementBytes),
                  data->data(), static_cast<int64_t>(from / place.elementBytes),
                  static_cast<int64_t>(to / place.elementBytes),
                  memory + (place.begin + from - begin));
        });
  }

  /// A shard of this rank, and its values while it is written.
  struct Held {
    StoredShard shard;
    std::optional<Downloaded> data;
  };

  const RankProgram &program;
  const Weights &initial;
  JobMember &job;
  const SaveOptions &options;
  std::vector<SavedTensor> saved;
  std::vector<TensorSpec> tensors; // in the file, aliases too
  std::vector<uint32_t> numbers;   // of their stored tensors
  std::vector<Place> places;       // by offset
  std::optional<SafetensorsWriter> file;
  std::future<Result<void>> writing; // of the last window; ends before `file`
  std::map<uint32_t, std::vector<Held>> shards; // this rank's, by tensor
};

} // namespace

Result<void> saveWeights(const LoadedPlan &plan, const RankProgram &program,
                         const Weights &initial, JobMember &job,
                         const SaveOptions &options) {
  return Saver(plan, program, initial, job, options).run();
}

} // namespace polyrank::runtime
