// Builds zip archives, valid and damaged ones, for tests of readers.

#pragma once

#include <cstdint>
#include <string>
#include <vector>
#include <zlib.h>

namespace polyrank::runtime::test {

/// Fields that are not set are those of a valid archive.
struct BuiltMember {
  std::string name, contents;
  bool deflate = false;
  uint16_t flags = 0;
  int method = -1;
  int64_t statedSize = -1;
  int64_t localOffset = -1;
  std::string localName = {};
  bool badChecksum = false;
  int64_t statedCompressed = -1;
  /// Extra fields of the directory, and of the member's own header.
  std::string extra = {}, localExtra = {};
};

inline void put(std::string &text, uint64_t value, int bytes) {
  for (int n = 0; n < bytes; ++n)
    text += static_cast<char>(value >> 8 * n);
}

inline std::string deflated(const std::string &contents) {
  std::string result(compressBound(contents.size()) + 64, '\0');
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  stream.next_in =
      reinterpret_cast<Bytef *>(const_cast<char *>(contents.data()));
  stream.avail_in = contents.size();
  stream.next_out = reinterpret_cast<Bytef *>(result.data());
  stream.avail_out = result.size();
  deflate(&stream, Z_FINISH);
  result.resize(stream.total_out);
  deflateEnd(&stream);
  return result;
}

/// `isWide` adds a zip64 end record, as PyTorch writes it; with `escaped` the
/// old record's fields only refer to it.
inline std::string buildZip(const std::vector<BuiltMember> &members,
                            bool isWide = false, bool escaped = false) {
  std::string archive, directory;
  for (const BuiltMember &member : members) {
    std::string data =
        member.deflate ? deflated(member.contents) : member.contents;
    std::string common;
    put(common, 20, 2);
    put(common, member.flags, 2);
    put(common, member.method >= 0 ? member.method : member.deflate ? 8 : 0, 2);
    put(common, 0, 4);
    put(common,
        crc32(0, reinterpret_cast<const Bytef *>(member.contents.data()),
              member.contents.size()) ^
            member.badChecksum,
        4);
    put(common,
        member.statedCompressed >= 0 ? member.statedCompressed : data.size(),
        4);
    put(common,
        member.statedSize >= 0 ? member.statedSize : member.contents.size(), 4);
    put(common, member.name.size(), 2);
    put(directory, 0x02014b50, 4);
    put(directory, 20, 2);
    directory += common;
    put(directory, member.extra.size(), 2);
    put(directory, 0, 8); // comment, part, attributes
    put(directory, 0, 2);
    put(directory,
        member.localOffset >= 0 ? member.localOffset : archive.size(), 4);
    directory += member.name + member.extra;
    put(archive, 0x04034b50, 4);
    archive += common;
    put(archive, member.localExtra.size(), 2);
    archive += member.localName.empty() ? member.name : member.localName;
    archive += member.localExtra + data;
  }
  size_t start = archive.size();
  archive += directory;
  if (isWide) {
    size_t record = archive.size();
    put(archive, 0x06064b50, 4);
    put(archive, 44, 8);
    put(archive, 45, 2);
    put(archive, 45, 2);
    put(archive, 0, 8); // parts
    put(archive, members.size(), 8);
    put(archive, members.size(), 8);
    put(archive, directory.size(), 8);
    put(archive, start, 8);
    put(archive, 0x07064b50, 4);
    put(archive, 0, 4);
    put(archive, record, 8);
    put(archive, 1, 4);
  }
  put(archive, 0x06054b50, 4);
  put(archive, 0, 4);
  put(archive, escaped ? 0xffff : members.size(), 2);
  put(archive, escaped ? 0xffff : members.size(), 2);
  put(archive, escaped ? 0xffffffff : directory.size(), 4);
  put(archive, escaped ? 0xffffffff : start, 4);
  put(archive, 0, 2);
  return archive;
}

} // namespace polyrank::runtime::test
