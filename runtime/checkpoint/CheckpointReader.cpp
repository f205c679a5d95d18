// Reads checkpoints block by block, and verifies checksums.

#include "runtime/checkpoint/CheckpointReader.h"

#include "runtime/checkpoint/Checksum.h"
#include "support/Failpoint.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace polyrank::runtime {

Result<const StoredTensorSpan *>
CheckpointReader::locate(const ManifestTensor &tensor,
                         const ManifestChunk &chunk) {
  std::unique_ptr<SafetensorsFile> &file = files[chunk.file];
  std::string path =
      checkpoint.path + "/" + checkpoint.manifest.files[chunk.file].name;
  if (!file) {
    int failing = failpoint("checkpoint.before_shard");
    if (failing)
      errno = failing;
    Result<SafetensorsFile> opened = failing
                                         ? fileError(path, "cannot be opened")
                                         : SafetensorsFile::open(path);
    if (!opened)
      return ofCheckpoint(opened.error());
    file = std::make_unique<SafetensorsFile>(*std::move(opened));
  }
  const StoredTensorSpan *span = file->find(chunk.key);
  if (!span)
    return Error{path + ": has no tensor '" + chunk.key +
                 "', which the manifest names: it is damaged"};
  if (span->dtype != tensor.dtype || span->shape != chunk.box.sizes)
    return Error{path + ": tensor '" + chunk.key +
                 "' has another type or shape than the manifest says: it is "
                 "damaged"};
  return span;
}

Result<void> CheckpointReader::compare(const ManifestChunk &chunk,
                                       uint64_t block,
                                       std::span<const std::byte> bytes) const {
  if (checksumOf(bytes) == chunk.checksums[block])
    return {};
  uint64_t begin = block * checksumBlock;
  return Error{
      checkpoint.path + "/" + checkpoint.manifest.files[chunk.file].name +
      ": bytes " + std::to_string(begin) + " to " +
      std::to_string(begin + bytes.size()) + " of tensor '" + chunk.key +
      "' are not those that were written (their checksum differs): it "
      "is damaged"};
}

Result<void> CheckpointReader::read(const ManifestTensor &tensor,
                                    const ManifestChunk &chunk, uint64_t begin,
                                    void *into, uint64_t size) {
  POLYRANK_ASSIGN(span, locate(tensor, chunk));
  auto *to = static_cast<std::byte *>(into);
  for (uint64_t end = begin + size; begin < end;) {
    uint64_t block = begin / checksumBlock, first = block * checksumBlock,
             length = std::min(checksumBlock, span->length - first),
             upTo = std::min(end, first + length);
    if (begin == first && upTo == first + length) {
      // A whole block is read directly to its destination.
      if (Result<void> got = files[chunk.file]->read(*span, first, to, length);
          !got)
        return ofCheckpoint(got.error());
      if (Result<void> same = compare(chunk, block, {to, length}); !same)
        return same;
    } else {
      if (cachedChunk != &chunk || cachedBlock != block) {
        cachedChunk = nullptr;
        cached.resize(length);
        if (Result<void> got =
                files[chunk.file]->read(*span, first, cached.data(), length);
            !got)
          return ofCheckpoint(got.error());
        if (Result<void> same = compare(chunk, block, cached); !same)
          return same;
        cachedChunk = &chunk;
        cachedBlock = block;
      }
      std::memcpy(to, cached.data() + (begin - first), upTo - begin);
    }
    to += upTo - begin;
    begin = upTo;
  }
  return {};
}

Result<void> CheckpointReader::checkAll() {
  std::vector<std::byte> block(checksumBlock);
  for (const ManifestTensor &tensor : checkpoint.manifest.tensors)
    for (const ManifestChunk &chunk : tensor.chunks) {
      POLYRANK_ASSIGN(span, locate(tensor, chunk));
      for (uint64_t at = 0; at < span->length; at += checksumBlock)
        if (Result<void> got = read(tensor, chunk, at, block.data(),
                                    std::min(checksumBlock, span->length - at));
            !got)
          return got;
    }
  return {};
}

} // namespace polyrank::runtime
