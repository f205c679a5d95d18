// The safetensors format: strict reading, and writing by several ranks into one
// file.

#pragma once

#include "support/ElementType.h"
#include "support/File.h"

#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace polyrank {

/// The format's name of an element type: "F32", "F8_E4M3". Empty if it has
/// none.
constexpr std::string_view safetensorsName(ElementType type) {
  return rowOf(type).safetensors;
}

/// A tensor in a safetensors file, row-major and little-endian.
struct StoredTensorSpan {
  std::string name;
  ElementType dtype = ElementType::UNDEFINED;
  std::vector<int64_t> shape;
  uint64_t offset = 0, length = 0; // bytes in the file
};

/// What a header states.
struct SafetensorsHeader {
  /// In the order of their offsets, which count from the begin of the data.
  std::vector<StoredTensorSpan> tensors;
  std::map<std::string, std::string> metadata;
  uint64_t dataBytes = 0;
};

/// Reads the JSON of a header, and checks all that the format promises. `what`
/// is the file or the stream, for messages; `dataBytes` is the size of the data
/// if it is known. The text is untrusted.
Result<SafetensorsHeader>
readSafetensorsHeader(const std::string &what, std::string_view json,
                      std::optional<uint64_t> dataBytes);

/// A file of 8 bytes (header length, little-endian), a JSON header of at most
/// 100 MB, and data. Opening it checks everything that the format promises:
/// keys are unique, the tensors tile the data without hole or overlap, and each
/// has the length that its shape and type need. Damaged values cannot be
/// detected: the format has no checksum.
class SafetensorsFile {
public:
  static Result<SafetensorsFile> open(const std::string &path);

  const std::string &path() const { return file.path(); }
  Result<std::string> identity() const { return file.identity(); }
  /// All tensors, in the order of their offsets.
  std::span<const StoredTensorSpan> tensors() const { return spans; }
  const StoredTensorSpan *find(std::string_view name) const;
  const std::map<std::string, std::string> &metadata() const { return notes; }

  /// Reads bytes [begin, begin + size) of a tensor of this file.
  Result<void> read(const StoredTensorSpan &tensor, uint64_t begin, void *into,
                    uint64_t size) const;

private:
  InputFile file;
  std::vector<StoredTensorSpan> spans;
  std::map<std::string, size_t, std::less<>> byName;
  std::map<std::string, std::string> notes;
};

struct TensorSpec {
  std::string name;
  ElementType dtype = ElementType::F32;
  std::vector<int64_t> shape;
  /// The tensor has complex numbers, each two F32 in the last dim of `shape`.
  /// The file stores them as C64, without that dim.
  bool complex = false;
};

/// Writes one safetensors file from one or several processes that have the same
/// OutputFile open:
///
///   one of them  create(path, file, tensors, metadata)  ... barrier ...
///   the others   join(path, file, tensors, metadata)
///   each         write(t, offset, data)..., finish()    ... barrier ...
///   the creator  OutputFile::commit()
///
/// The layout is a function of the tensors and the metadata alone, so all ranks
/// agree on it. `path` is for messages, `file` is a file descriptor.
class SafetensorsWriter {
public:
  static Result<SafetensorsWriter>
  create(const std::string &path, int file, std::span<const TensorSpec> tensors,
         const std::map<std::string, std::string> &metadata = {});
  static Result<SafetensorsWriter>
  join(const std::string &path, int file, std::span<const TensorSpec> tensors,
       const std::map<std::string, std::string> &metadata = {});

  /// Computes the layout alone: offsetOf, dataBegin and size.
  static Result<SafetensorsWriter>
  layOut(const std::string &path, std::span<const TensorSpec> tensors,
         const std::map<std::string, std::string> &metadata = {});

  /// The file offset of tensor number `tensor` of the list. The tensors fill
  /// the range from `dataBegin` to `size` without holes, each aligned to its
  /// element size.
  uint64_t offsetOf(size_t tensor) const { return extents[tensor].offset; }
  uint64_t dataBegin() const { return fileSize - dataSize; }
  uint64_t size() const { return fileSize; }

  /// Fails unless the file has the size and the header of this layout, that is,
  /// unless its writer got as far as the data and nobody has truncated it
  /// since. `file` is a readable descriptor.
  Result<void> checkHeader(int file) const;

  /// Writes a part of the data, which may span tensors. May run on several
  /// threads. If the file system supports it, whole pages of memory with the
  /// same alignment as in the file are written directly, without a copy in the
  /// page cache that would evict what other programs read.
  Result<void> writeData(uint64_t offset, std::span<const std::byte> data);

  /// Writes bytes [begin, begin + data.size()) of tensor number `tensor` of the
  /// list. The callers decide who writes what. May run on several threads.
  Result<void> write(size_t tensor, uint64_t begin,
                     std::span<const std::byte> data);

  /// Makes what this process wrote durable. A failure is final: the kernel
  /// drops what it could not write, so a second attempt would wrongly succeed.
  Result<void> finish();

private:
  SafetensorsWriter() = default;
  static Result<SafetensorsWriter>
  open(const std::string &path, int file, std::span<const TensorSpec> tensors,
       const std::map<std::string, std::string> &metadata);
  Result<void> setLayout(std::span<const TensorSpec> tensors,
                         const std::map<std::string, std::string> &metadata);

  struct Extent {
    uint64_t offset = 0, length = 0;
  };
  std::string path, header;
  Descriptor descriptor, direct; // the latter if the file system has direct I/O
  bool failed = false;
  std::vector<Extent> extents; // by number in the list
  uint64_t fileSize = 0, dataSize = 0;
};

} // namespace polyrank
