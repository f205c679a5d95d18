// An array in a data file: raw tokens, a .npy file, or a member of a .npz file.

#pragma once

#include "support/File.h"
#include "support/arrays/Values.h"

#include <memory>
#include <span>
#include <vector>

namespace polyrank {

/// A row-major array. Elements are read from the file on demand, but a
/// compressed array is inflated when it is opened.
class StoredArray {
public:
  StoredArray(std::string name, ElementType type, std::vector<int64_t> shape,
              std::shared_ptr<const InputFile> file, uint64_t offset);
  StoredArray(std::string name, ElementType type, std::vector<int64_t> shape,
              std::shared_ptr<const InputFile> file,
              std::vector<std::byte> contents);

  const std::string &name() const { return title; }
  ElementType type() const { return elementType; }
  const std::vector<int64_t> &shape() const { return extents; }
  int64_t elements() const;
  const std::string &path() const { return file->path(); }
  const InputFile &source() const { return *file; }

  /// The memory of the inflated contents; 0 if the array is not compressed.
  uint64_t memoryBytes() const { return contents.size(); }

  /// Reads elements [first, first + count), which must exist.
  Result<void> read(int64_t first, int64_t count, std::byte *into) const;

private:
  std::string title;
  ElementType elementType;
  std::vector<int64_t> extents;
  std::shared_ptr<const InputFile> file;
  uint64_t offset = 0;
  std::vector<std::byte> contents; // of a compressed array
};

/// Opens a whole file as elements of one type.
Result<StoredArray> openRawArray(const std::string &path, ElementType type);

} // namespace polyrank
