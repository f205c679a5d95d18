// Reads the tensors of a checkpoint, and verifies the checksum of every byte it
// returns.

#pragma once

#include "runtime/checkpoint/CheckpointFolder.h"
#include "support/safetensors/Safetensors.h"

#include <map>
#include <memory>

namespace polyrank::runtime {

/// Reads one checkpoint, on one thread. A shard's file is opened at its first
/// read, which also checks that it has the chunks that the manifest lists.
class CheckpointReader {
public:
  explicit CheckpointReader(FoundCheckpoint found)
      : checkpoint(std::move(found)) {}

  const Manifest &manifest() const { return checkpoint.manifest; }
  const std::string &path() const { return checkpoint.path; }

  /// Reads bytes [begin, begin + size) of a chunk of `tensor`. Every block that
  /// overlaps the range is compared with its checksum.
  Result<void> read(const ManifestTensor &tensor, const ManifestChunk &chunk,
                    uint64_t begin, void *into, uint64_t size);

  /// Reads everything, and returns the first fault that it finds.
  Result<void> checkAll();

private:
  /// Returns where a chunk is in its file.
  Result<const StoredTensorSpan *> locate(const ManifestTensor &tensor,
                                          const ManifestChunk &chunk);
  Result<void> compare(const ManifestChunk &chunk, uint64_t block,
                       std::span<const std::byte> bytes) const;

  FoundCheckpoint checkpoint;
  std::map<uint32_t, std::unique_ptr<SafetensorsFile>> files;
  /// The last block of which a read returned only a part.
  std::vector<std::byte> cached;
  const ManifestChunk *cachedChunk = nullptr;
  uint64_t cachedBlock = 0;
};

} // namespace polyrank::runtime
