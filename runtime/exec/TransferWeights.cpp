// All ranks assemble their shards, then each takes what it needs.

#include "runtime/exec/TransferWeights.h"

#include "support/Names.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <map>

namespace polyrank::runtime {
namespace {

constexpr uint64_t alignment = 64;
constexpr int64_t pieceElements = 64 << 10; // of a thread or replica

} // namespace

Result<WeightTransfer> WeightTransfer::prepare(const LoadedPlan &from,
                                               const LoadedPlan &to,
                                               const SavedWeights &what) {
  WeightTransfer transfer;
  transfer.what = what;
  std::map<std::string, uint32_t> numbers; // in `to`
  if (to.plan->stored())
    for (uint32_t t = 0; t < to.plan->stored()->size(); ++t)
      for (const std::string &name : namesOf(*to.plan->stored()->Get(t)))
        numbers.try_emplace(name, t);
  std::vector<SavedTensor> saved = savedTensorsOf(*from.plan, what);
  uint64_t end = 0;
  for (uint32_t f = 0; f < saved.size(); ++f) {
    const plan::StoredTensor &stored = *from.plan->stored()->Get(f);
    std::vector<std::string> names = namesOf(stored);
    auto found = numbers.end();
    for (const std::string &name : names)
      if (found == numbers.end())
        found = numbers.find(name);
    if (found == numbers.end()) {
      if (saved[f].isTrained)
        return Error{fmt::format(
            "'{}' is trained, but plan '{}' has no such tensor: it is of "
            "another model than '{}'",
            names[0], to.path, from.path)};
      continue;
    }
    std::vector<int64_t> shape = shapeOf(stored),
                         other =
                             shapeOf(*to.plan->stored()->Get(found->second));
    if (shape != other)
      return Error{fmt::format(
          "'{}' has shape {} in plan '{}', and {} in plan '{}': they are of "
          "different models",
          names[0], shapeText(shape), from.path, shapeText(other), to.path)};
    int64_t elements = 1;
    for (int64_t size : shape)
      elements *= size;
    Pair pair{f, found->second, saved[f].dtype, saved[f].complete, elements, 0,
              0};
    if (pair.bytes() == 0)
      continue;
    // A round has as many tensors as the memory for saving holds.
    if (end > 0 && end + pair.bytes() > saveMemoryBytes)
      ++transfer.rounds, end = 0;
    pair.round = transfer.rounds;
    pair.offset = end;
    end = (end + pair.bytes() + alignment - 1) / alignment * alignment;
    transfer.memory = std::max(transfer.memory, end);
    transfer.pairs.push_back(pair);
  }
  transfer.rounds += transfer.pairs.empty() ? 0 : 1;
  return std::move(transfer);
}

Result<void> WeightTransfer::run(const RankProgram &source,
                                 const Weights &initial, RankProgram &target,
                                 JobMember &job, std::span<std::byte> memory,
                                 const ParallelFor &parallelFor) const {
  std::map<uint32_t, std::vector<StoredShard>> shards;
  for (StoredShard &shard : source.storedShards(what))
    shards[shard.stored].push_back(std::move(shard));
  auto inRound = [&](uint32_t round, auto body) -> Result<void> {
    for (const Pair &pair : pairs)
      if (pair.round == round)
        if (Result<void> done = body(pair, memory.data() + pair.offset); !done)
          return done;
    return {};
  };
  for (uint32_t round = 0; round < rounds; ++round) {
    job.beat();
    // After the barrier nobody needs the previous contents.
    if (Result<void> all = job.barrier(); !all)
      return all;
    // Tensors that no rank holds completely are copied first; the ranks then
    // overwrite their parts.
    bool anyInitial = false;
    Result<void> done =
        inRound(round, [&](const Pair &pair, std::byte *at) -> Result<void> {
          if (pair.complete)
            return {};
          anyInitial = true;
          const StoredSource &from = initial.sources()[pair.from];
          if (job.rank() != 0)
            return {};
          std::memset(at, 0, pair.bytes());
          if (!from.read)
            return {};
          Placement whole;
          whole.extents.push_back({pair.elements, 1, 1});
          return loadShard(whole, from, pair.dtype, at);
        });
    if (!done)
      return done;
    if (anyInitial)
      if (Result<void> all = job.barrier(); !all)
        return all;
    done = inRound(round, [&](const Pair &pair, std::byte *at) -> Result<void> {
      auto held = shards.find(pair.from);
      if (held == shards.end())
        return {};
      for (const StoredShard &shard : held->second) {
        POLYRANK_ASSIGN(data, source.download(*shard.argument->buffer()));
        int64_t bytes = bytesOf(pair.dtype);
        // The replicas of a block take turns with the pieces.
        parallelFor((pair.elements + pieceElements - 1) / pieceElements, 1,
                    [&](int64_t from, int64_t to) {
                      for (int64_t piece = from; piece < to; ++piece) {
                        if (piece % shard.replica.count != shard.replica.index)
                          continue;
                        int64_t begin = piece * pieceElements;
                        storeShardWithin(
                            shard.placement, bytes, data.data(), begin,
                            std::min(begin + pieceElements, pair.elements),
                            at + begin * bytes);
                      }
                    });
      }
      return {};
    });
    if (!done)
      return done;
    if (Result<void> all = job.barrier(); !all)
      return all;
    done = inRound(round, [&](const Pair &pair, std::byte *at) {
      StoredSource from;
      from.dtype = pair.dtype;
      from.read = [at](uint64_t offset, void *into,
                       uint64_t length) -> Result<void> {
        std::memcpy(into, at + offset, length);
        return {};
      };
      return target.loadTensor(pair.to, from);
    });
    if (!done)
      return done;
  }
  return {};
}

} // namespace polyrank::runtime
