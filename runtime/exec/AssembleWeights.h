// Puts together what the ranks of a program hold of the stored tensors.

#pragma once

#include "runtime/exec/SavedFiles.h"
#include "runtime/exec/Weights.h"
#include "runtime/job/Job.h"

#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace polyrank::runtime {

/// Where the bytes [begin, end) of a stored tensor belong: in a file, or in
/// another row of bytes.
struct WeightPlace {
  uint64_t begin, end;
  uint32_t stored;
  ElementType dtype; // there
};

/// Assembles pieces of a row of bytes in memory that all ranks share. Each rank
/// copies its elements to their places, whatever their layout, and replicas
/// share this work. Where several machines share the ranks out, the memory must
/// be zero; JobMember::gather then puts the pieces of all machines together.
class WeightAssembler {
public:
  /// Each rank has the same places, which do not overlap. Tensors that no rank
  /// holds completely are first filled from `initial`, the weights from which
  /// the program was loaded.
  WeightAssembler(const plan::Plan &plan, const SavedWeights &what,
                  const RankProgram &program, const Weights &initial,
                  JobMember &job, ParallelFor parallelFor,
                  std::vector<WeightPlace> places);

  /// Copies this rank's part of the bytes [begin, end) of the row to `memory`,
  /// which starts at `begin`. Called by all ranks. The bytes are complete when
  /// all ranks have returned; between places they stay as they are.
  Result<void> fill(uint64_t begin, uint64_t end, std::byte *memory);

  /// The part of [begin, end) that a rank takes, if all take a dense one:
  /// multiples of a page, except at the ends.
  static std::pair<uint64_t, uint64_t> partOf(uint64_t begin, uint64_t end,
                                              int rank, int ranks);

private:
  Result<void> copyInitial(uint64_t begin, uint64_t end, std::byte *memory);
  /// Makes those of these bytes of incomplete tensors zero that a rank fills
  /// afterwards, perhaps on another machine.
  void makeRoom(uint64_t begin, uint64_t end, std::byte *memory) const;
  Result<void> loadInitial(const WeightPlace &place, int64_t begin, int64_t end,
                           std::byte *into) const;
  Result<void> downloadShards(uint64_t begin, uint64_t end);
  void storeShards(uint64_t begin, uint64_t end, uint64_t piece,
                   std::byte *memory) const;

  /// A shard of this rank, and its values while they are needed.
  struct Held {
    StoredShard shard;
    std::optional<Downloaded> data;
  };

  const RankProgram &program;
  const Weights &initial;
  JobMember &job;
  ParallelFor parallelFor;
  std::vector<SavedTensor> saved;
  std::vector<WeightPlace> places;              // by `begin`
  std::map<uint32_t, std::vector<Held>> shards; // this rank's, by tensor
  /// What all ranks hold of incomplete tensors, on the machine of rank 0 of
  /// several.
  std::vector<StoredShard> filled;
};

} // namespace polyrank::runtime
