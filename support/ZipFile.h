// Reads zip archives from untrusted sources, by their central directory
// (APPNOTE 6.3).

#pragma once

#include "support/Budget.h"
#include "support/File.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace polyrank {

/// One member of an archive.
struct ZipMember {
  enum Method : uint16_t { Stored = 0, Deflated = 8 };

  std::string name;
  uint16_t method = Stored;
  uint32_t checksum = 0;   // CRC-32 of its content
  uint64_t compressed = 0; // bytes in the file
  uint64_t size = 0;       // bytes of its content
  uint64_t offset = 0;     // where the (compressed) bytes begin in the file

  bool isStored() const { return method == Stored; }
};

/// An archive, or one that is a stored member of another. Anything ambiguous is
/// an error: members with the same name, members that overlap or exceed the
/// file, headers that contradict the directory, names that lead out of the
/// folder into which they would be unpacked. Members may be stored or deflated,
/// with 64-bit sizes.
class ZipFile {
public:
  /// `kind` is used in messages: "FILE: not KIND that can be read: ..".
  static Result<ZipFile> open(std::shared_ptr<const InputFile> file,
                              std::string kind);
  /// Opens the archive in bytes [begin, begin + length) of the file. `budget`
  /// is that of the enclosing archive; null: a budget of its own.
  static Result<ZipFile> open(std::shared_ptr<const InputFile> file,
                              std::string kind, uint64_t begin, uint64_t length,
                              std::shared_ptr<Budget> budget = nullptr);

  const std::shared_ptr<const InputFile> &file() const { return source; }
  /// The budget for everything that is read from the file. `read` takes from
  /// it, and so must code that makes values of what was read.
  const std::shared_ptr<Budget> &budget() const { return spent; }
  /// The members in the order of the directory.
  const std::vector<ZipMember> &members() const { return entries; }
  /// Null if there is none.
  const ZipMember *find(std::string_view name) const;

  /// Reads the content of `member` and checks its checksum. Memory is bounded
  /// by what its compressed bytes can hold (deflate compresses by at most
  /// 1032), by what is left of the budget, and by `limit`: longer contents are
  /// an error.
  Result<std::vector<std::byte>> read(const ZipMember &member,
                                      uint64_t limit = UINT64_MAX) const;

private:
  ZipFile() = default;

  std::shared_ptr<const InputFile> source;
  std::shared_ptr<Budget> spent;
  std::vector<ZipMember> entries;
  std::map<std::string, size_t, std::less<>> byName;
};

} // namespace polyrank
