// Writes the part of a checkpoint that one rank has, while the rank goes on.

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
  /// Of each tensor, block by block.
  std::vector<std::vector<uint64_t>> checksums;
  double seconds = 0; // from the start to the sync
};

/// The memory for one file's tensors, and a thread that writes it. Order of
/// calls: create; then for each checkpoint wait, fill `dataOf` each tensor,
/// start.
class ShardWriter {
public:
  /// Takes the memory now: writing later cannot fail for want of it.
  static Result<ShardWriter> create(std::vector<TensorSpec> tensors);

  std::span<std::byte> dataOf(size_t tensor);
  uint64_t fileBytes() const { return layout->size(); }

  /// Writes the file `name` in `folder`, which it makes where it is not there;
  /// no such file may be. `files` outlives that.
  void start(FileOperations &files, const std::string &folder,
             const std::string &name);
  bool isWriting() const { return writing.valid(); }
  /// Whether `wait` would return at once.
  bool isWritten() const;
  /// What became of it. Calls `onTick` some times a second meanwhile.
  Result<WrittenShard> wait(const std::function<void()> &onTick = {});

  /// Bytes of memory that a file of these tensors takes; 0 of impossible ones.
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
  // As the file has it from the page on in which its data begin, so that whole
  // pages go to the disk from here.
  std::unique_ptr<std::byte[], Free> memory;
  std::future<Result<WrittenShard>> writing;
};

} // namespace polyrank::runtime
