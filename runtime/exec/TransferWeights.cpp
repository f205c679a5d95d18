// All ranks assemble their shards, then each takes what it needs.

#include "runtime/exec/TransferWeights.h"

#include "runtime/exec/AssembleWeights.h"
#include "support/Names.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <map>

namespace polyrank::runtime {
namespace {

constexpr uint64_t alignment = 64;

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
    Pair pair{f, found->second, saved[f].dtype, elements, 0, 0};
    if (pair.bytes() == 0)
      continue;
    // A round has as many tensors as the memory for saving holds.
    if (end > 0 && end + pair.bytes() > saveMemoryBytes)
      ++transfer.numRounds, end = 0;
    pair.round = transfer.numRounds;
    pair.offset = end;
    end = (end + pair.bytes() + alignment - 1) / alignment * alignment;
    transfer.memory = std::max(transfer.memory, end);
    transfer.pairs.push_back(pair);
  }
  transfer.numRounds += transfer.pairs.empty() ? 0 : 1;
  return std::move(transfer);
}

Result<void> WeightTransfer::run(const LoadedPlan &from,
                                 const RankProgram &source,
                                 const Weights &initial, RankProgram &target,
                                 JobMember &job, WindowRounds &rounds,
                                 const ParallelFor &parallelFor) const {
  // The rounds lie one after another in a row of bytes.
  std::vector<WeightPlace> places;
  for (const Pair &pair : pairs) {
    uint64_t begin = pair.round * memory + pair.offset;
    places.push_back({begin, begin + pair.bytes(), pair.from, pair.dtype});
  }
  WeightAssembler assembler(*from.plan, what, source, initial, job, parallelFor,
                            std::move(places));
  for (uint32_t round = 0; round < numRounds; ++round) {
    job.beat();
    POLYRANK_ASSIGN(part, rounds.begin());
    if (Result<void> filled =
            assembler.fill(round * memory, (round + 1) * memory, part.data());
        !filled)
      return filled;
    if (Result<void> all = rounds.filled(); !all)
      return all;
    for (const Pair &pair : pairs) {
      if (pair.round != round)
        continue;
      StoredSource tensor;
      tensor.dtype = pair.dtype;
      tensor.read = [at = part.data() +
                          pair.offset](uint64_t offset, void *into,
                                       uint64_t length) -> Result<void> {
        std::memcpy(into, at + offset, length);
        return {};
      };
      if (Result<void> loaded = target.loadTensor(pair.to, tensor); !loaded)
        return loaded;
    }
  }
  return {};
}

} // namespace polyrank::runtime
