// Writes one rank's part of a checkpoint while the rank continues training.

#pragma once

#include "runtime/checkpoint/FileOperations.h"
#include "support/safetensors/Safetensors.h"

#include <functional>
#include <future>
#include <memory>

namespace polyrank::runtime {

/// A shard that is durable.
struct WrittenShard {
  uint64_t bytes = 0; // of the file
  /// For each tensor, the checksums of its blocks.
  std::vector<std::vector<uint64_t>> checksums;
  double seconds = 0; // from the start to the sync
};

/// Owns the memory for one file's tensors and a thread that writes it. Order of
/// calls: create; then for each checkpoint wait, fill `dataOf` of each tensor,
/// start.
class ShardWriter {
public:
  /// Allocates the memory now, so that a later write cannot fail for lack of
  /// it.
  static Result<ShardWriter> create(std::vector<TensorSpec> tensors);

  std::span<std::byte> dataOf(size_t tensor);
  uint64_t fileBytes() const { return layout->size(); }

  /// Starts writing the file `name` in `folder`, which is made if it does not
  /// exist; the file must not exist. `files` must outlive the write.
  void start(FileOperations &files, const std::string &folder,
             const std::string &name);
  bool isWriting() const { return writing.valid(); }
  /// True if `wait` would return at once.
  bool isWritten() const;
  /// Waits for the write and returns its outcome. Meanwhile calls `onTick`
  /// several times a second.
  Result<WrittenShard> wait(const std::function<void()> &onTick = {});

  /// Returns the bytes of memory for a file of these tensors; 0 if they are
  /// invalid.
  static uint64_t memoryBytes(std::span<const TensorSpec> tensors);

private:
  struct Free {
    void operator()(std::byte *memory) const;
  };

  ShardWriter() = default;
  Result<WrittenShard> write(FileOperations &files, const std::string &folder,
                             const std::string &path) const;

  std::vector<TensorSpec> tensors;
  std::unique_ptr<SafetensorsWriter> layout;
  // A copy of the file from the page in which its data begin, so that whole
  // pages are written to the disk directly from here.
  std::unique_ptr<std::byte[], Free> memory;
  std::future<Result<WrittenShard>> writing;
};

} // namespace polyrank::runtime
