// Copies shards to their places, piece by piece.

#include "runtime/exec/AssembleWeights.h"

#include <algorithm>
#include <cstring>
#include <memory>

namespace polyrank::runtime {
namespace {

constexpr uint64_t grain = 128 << 10; // of a thread or replica, in bytes

int64_t elementBytesOf(const WeightPlace &place) {
  return bytesOf(place.dtype);
}

/// Calls body(place, from, to) for each place with bytes of [begin, end);
/// `from` and `to` are bytes of the tensor.
template <typename Body>
void forEachPlace(const std::vector<WeightPlace> &places, uint64_t begin,
                  uint64_t end, const Body &body) {
  auto place = std::partition_point(
      places.begin(), places.end(),
      [&](const WeightPlace &place) { return place.end <= begin; });
  for (; place != places.end() && place->begin < end; ++place)
    body(*place, std::max(begin, place->begin) - place->begin,
         std::min(end, place->end) - place->begin);
}

/// The values in the type that they have at their places.
Downloaded rounded(Downloaded held, ElementType from, ElementType to) {
  if (from == to)
    return held;
  int64_t count = static_cast<int64_t>(held.bytes().size()) / bytesOf(from);
  size_t bytes = static_cast<size_t>(count * bytesOf(to));
  auto copy = std::make_unique<std::byte[]>(bytes);
  convertElements(from, held.data(), count, to, copy.get());
  return Downloaded(std::move(copy), bytes);
}

} // namespace

WeightAssembler::WeightAssembler(const plan::Plan &plan,
                                 const SavedWeights &what,
                                 const RankProgram &program,
                                 const Weights &initial, JobMember &job,
                                 ParallelFor parallelFor,
                                 std::vector<WeightPlace> all)
    : program(program), initial(initial), job(job),
      parallelFor(std::move(parallelFor)), saved(savedTensorsOf(plan, what)),
      places(std::move(all)) {
  std::erase_if(places,
                [](const WeightPlace &each) { return each.begin == each.end; });
  std::sort(places.begin(), places.end(),
            [](const WeightPlace &a, const WeightPlace &b) {
              return a.begin < b.begin;
            });
  for (StoredShard &shard : program.storedShards(what))
    shards[shard.stored].push_back({std::move(shard), std::nullopt});
  for (int rank = 0;
       job.isShared() && job.here().has(0) && rank < job.worldSize(); ++rank)
    for (StoredShard &shard : program.storedShardsOf(rank, what))
      if (!saved[shard.stored].complete)
        filled.push_back(std::move(shard));
}

std::pair<uint64_t, uint64_t>
WeightAssembler::partOf(uint64_t begin, uint64_t end, int rank, int ranks) {
  uint64_t start = begin / grain * grain,
           each = ((end - start) / static_cast<uint64_t>(ranks) / grain + 1) *
                  grain;
  auto bound = [&](int number) {
    return std::clamp(start + static_cast<uint64_t>(number) * each, begin, end);
  };
  return {bound(rank), bound(rank + 1)};
}

Result<void> WeightAssembler::fill(uint64_t begin, uint64_t end,
                                   std::byte *memory) {
  if (Result<void> copied = copyInitial(begin, end, memory); !copied)
    return copied;
  if (Result<void> there = downloadShards(begin, end); !there)
    return there;
  uint64_t start = begin / grain * grain;
  parallelFor(static_cast<int64_t>((end - start + grain - 1) / grain), 1,
              [&](int64_t from, int64_t to) {
                for (uint64_t piece = from; piece < uint64_t(to); ++piece) {
                  uint64_t at = std::max(start + piece * grain, begin);
                  storeShards(at, std::min(start + (piece + 1) * grain, end),
                              piece, memory + (at - begin));
                }
              });
  return {};
}

/// Each rank of rank 0's machine copies a part of the tensors that no rank
/// holds completely; then the ranks overwrite what they hold.
Result<void> WeightAssembler::copyInitial(uint64_t begin, uint64_t end,
                                          std::byte *memory) {
  bool any = false;
  forEachPlace(places, begin, end,
               [&](const WeightPlace &place, uint64_t, uint64_t) {
                 any |= !saved[place.stored].complete;
               });
  if (!any)
    return {};
  if (!job.here().has(0))
    return job.barrier();
  auto [mine, mineEnd] = partOf(begin, end, job.rank(), job.here().count);
  Result<void> result;
  forEachPlace(places, mine, mineEnd,
               [&](const WeightPlace &place, uint64_t from, uint64_t to) {
                 if (result && !saved[place.stored].complete)
                   result = loadInitial(
                       place,
                       static_cast<int64_t>(from) / elementBytesOf(place),
                       static_cast<int64_t>(to) / elementBytesOf(place),
                       memory + (place.begin + from - begin));
               });
  if (!result)
    return result;
  makeRoom(mine, mineEnd, memory + (mine - begin));
  return job.barrier();
}

void WeightAssembler::makeRoom(uint64_t begin, uint64_t end,
                               std::byte *memory) const {
  forEachPlace(places, begin, end,
               [&](const WeightPlace &place, uint64_t from, uint64_t to) {
                 int64_t each = elementBytesOf(place);
                 for (const StoredShard &shard : filled) {
                   if (shard.stored != place.stored)
                     continue;
                   int64_t elements = static_cast<int64_t>(
                       shard.argument->buffer()->size() /
                       uint64_t(bytesOf(ElementType(shard.argument->dtype()))));
                   std::vector<std::byte> zeros(
                       static_cast<size_t>(elements * each));
                   storeShardWithin(shard.placement, each, zeros.data(),
                                    static_cast<int64_t>(from) / each,
                                    static_cast<int64_t>(to) / each,
                                    memory + (place.begin + from - begin));
                 }
               });
}

/// Loads elements [begin, end) of a stored tensor from its source; zeros if it
/// has none.
Result<void> WeightAssembler::loadInitial(const WeightPlace &place,
                                          int64_t begin, int64_t end,
                                          std::byte *into) const {
  const StoredSource &source = initial.sources()[place.stored];
  if (!source.read) {
    std::memset(into, 0, (end - begin) * elementBytesOf(place));
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
    into += (upTo - begin) * elementBytesOf(place);
    begin = upTo;
  }
  return {};
}

/// Downloads the shards that have a part in [begin, end), and releases the
/// others.
Result<void> WeightAssembler::downloadShards(uint64_t begin, uint64_t end) {
  std::map<uint32_t, ElementType> needed;
  forEachPlace(places, begin, end,
               [&](const WeightPlace &place, uint64_t, uint64_t) {
                 needed.emplace(place.stored, place.dtype);
               });
  for (auto &[stored, held] : shards)
    for (Held &each : held) {
      auto wanted = needed.find(stored);
      if (wanted == needed.end()) {
        each.data.reset();
      } else if (!each.data) {
        POLYRANK_ASSIGN(data, program.download(*each.shard.argument->buffer()));
        each.data.emplace(
            rounded(std::move(data), saved[stored].dtype, wanted->second));
      }
    }
  return {};
}

/// The replicas of a block take turns with the pieces.
void WeightAssembler::storeShards(uint64_t begin, uint64_t end, uint64_t piece,
                                  std::byte *memory) const {
  forEachPlace(places, begin, end,
               [&](const WeightPlace &place, uint64_t from, uint64_t to) {
                 auto held = shards.find(place.stored);
                 if (held == shards.end())
                   return;
                 int64_t each = elementBytesOf(place);
                 for (const auto &[shard, data] : held->second)
                   if (static_cast<int64_t>(piece) % shard.replica.count ==
                       shard.replica.index)
                     storeShardWithin(shard.placement, each, data->data(),
                                      static_cast<int64_t>(from) / each,
                                      static_cast<int64_t>(to) / each,
                                      memory + (place.begin + from - begin));
               });
}

} // namespace polyrank::runtime
