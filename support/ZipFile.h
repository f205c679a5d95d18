// Zip archives, read without trust by their central directory (APPNOTE 6.3).

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

/// An archive, or one that is a stored member of another. Whatever makes it
/// ambiguous is an error: members of one name, members that overlap or go
/// beyond the file, headers that disagree with the directory, names that lead
/// out of the folder into which it would be unpacked. Members may be stored or
/// deflated, with sizes of 64 bits.
class ZipFile {
public:
  /// `kind` stands in messages: "FILE: not KIND that can be read: ..".
  static Result<ZipFile> open(std::shared_ptr<const InputFile> file,
                              std::string kind);
  /// The archive in bytes [begin, begin + length) of the file. `budget` is that
  /// of the archive around it; null: its own.
  static Result<ZipFile> open(std::shared_ptr<const InputFile> file,
                              std::string kind, uint64_t begin, uint64_t length,
                              std::shared_ptr<Budget> budget = nullptr);

  const std::shared_ptr<const InputFile> &file() const { return source; }
  /// Of all that is read of the file. `read` takes from it; so does whoever
  /// makes values of what was read.
  const std::shared_ptr<Budget> &budget() const { return spent; }
  /// In the order of the directory.
  const std::vector<ZipMember> &members() const { return entries; }
  /// Null where there is none.
  const ZipMember *find(std::string_view name) const;

  /// The content of `member`, whose checksum it has. Memory is taken only for
  /// what its bytes in the file can be worth (deflate makes nothing smaller
  /// than by 1032) and what is left of the budget. A content of more than
  /// `limit` bytes is an error.
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
