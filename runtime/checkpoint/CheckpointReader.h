// Reads the tensors of a checkpoint, and believes no byte that it has not
// checked.

#pragma once

#include "runtime/checkpoint/CheckpointFolder.h"
#include "support/safetensors/Safetensors.h"

#include <map>
#include <memory>

namespace polyrank::runtime {

/// Of one checkpoint, for one thread. A shard's file is opened when something
/// of it is read first, and then it is checked that it has the chunks that the
/// manifest says.
class CheckpointReader {
public:
  explicit CheckpointReader(FoundCheckpoint found)
      : checkpoint(std::move(found)) {}

  const Manifest &manifest() const { return checkpoint.manifest; }
  const std::string &path() const { return checkpoint.path; }

  /// Bytes [begin, begin + size) of a chunk of `tensor`. Each block that has
  /// some of them is compared with its checksum.
  Result<void> read(const ManifestTensor &tensor, const ManifestChunk &chunk,
                    uint64_t begin, void *into, uint64_t size);

  /// Reads everything; the first thing that is wrong.
  Result<void> checkAll();

private:
  /// A chunk's place in its file.
  Result<const StoredTensorSpan *> locate(const ManifestTensor &tensor,
                                          const ManifestChunk &chunk);
  Result<void> compare(const ManifestChunk &chunk, uint64_t block,
                       std::span<const std::byte> bytes) const;

  FoundCheckpoint checkpoint;
  std::map<uint32_t, std::unique_ptr<SafetensorsFile>> files;
  /// The block that was read last of which not all was asked for.
  std::vector<std::byte> cached;
  const ManifestChunk *cachedChunk = nullptr;
  uint64_t cachedBlock = 0;
};

} // namespace polyrank::runtime
