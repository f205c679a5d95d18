// Weights in one safetensors file or in a folder of several, as transformers
// saves them.

#pragma once

#include "support/safetensors/Safetensors.h"

#include <memory>
#include <set>

namespace polyrank::runtime {

/// A folder of weights holds either this file alone, or an index and the files
/// it names.
inline constexpr const char *wholeName = "model.safetensors";
inline constexpr const char *indexName = "model.safetensors.index.json";
/// "model-00002-of-00007.safetensors"; `number` counts from 1.
std::string shardName(size_t number, size_t count);
bool isShardName(std::string_view name);

/// Returns the text of an index, from the names of each file's tensors and the
/// bytes of all tensors.
std::string indexText(
    const std::vector<std::pair<std::string, std::vector<std::string>>> &files,
    uint64_t totalBytes);

/// The tensors of one file or of all files of a folder, each exactly once. An
/// index is JSON with an object `weight_map`, tensor -> file beside the index,
/// and must agree with the files: every tensor that it names is in the file
/// that it names, and the files have no others. Its other keys are ignored.
class SafetensorsSet {
public:
  /// `path` is a safetensors file, a folder, or an index (".json").
  static Result<SafetensorsSet> open(const std::string &path);

  struct Tensor {
    const StoredTensorSpan *span = nullptr;
    const SafetensorsFile *file = nullptr;

    Result<void> read(uint64_t begin, void *into, uint64_t size) const {
      return file->read(*span, begin, into, size);
    }
  };
  /// All tensors, by name.
  const std::map<std::string, Tensor, std::less<>> &tensors() const {
    return all;
  }
  const Tensor *find(std::string_view name) const;
  /// Identifies the open files among all others (InputFile::identity), as 32
  /// hex digits.
  Result<std::string> identity() const;
  /// The paths of all files that were read, including the index.
  const std::set<std::string> &paths() const { return opened; }

private:
  Result<void> openIndex(const std::string &path);
  Result<void> add(const std::string &path);

  std::vector<std::unique_ptr<SafetensorsFile>> files;
  std::map<std::string, Tensor, std::less<>> all;
  std::set<std::string> opened;
};

} // namespace polyrank::runtime
