// .npz sets: zip archives of .npy members, read as untrusted and written
// uncompressed.

#pragma once

#include "support/OutputFile.h"
#include "support/arrays/StoredArray.h"

namespace polyrank {

/// Opens the arrays of a set, named like their members without .npy. Members
/// are stored or deflated; anything ambiguous in the archive (duplicate names,
/// overlaps, contradicting headers) is an error.
Result<std::vector<StoredArray>> openNpz(const std::string &path);

/// Writes a set, which gets its name once it is complete. bf16, which numpy
/// lacks, is written as float32, which represents it exactly.
class NpzWriter {
public:
  static Result<NpzWriter> create(const std::string &path);
  explicit NpzWriter(OutputFile file) : file(std::move(file)) {}

  /// `data` is the whole array, row-major.
  Result<void> add(const std::string &name, ElementType dtype,
                   std::span<const int64_t> shape,
                   std::span<const std::byte> data);
  Result<void> commit();

private:
  Result<void> append(const void *data, uint64_t size);

  struct Member {
    std::string name;
    uint32_t checksum = 0;
    uint64_t size = 0, offset = 0;
  };
  OutputFile file;
  uint64_t position = 0;
  std::vector<Member> members;
};

} // namespace polyrank
