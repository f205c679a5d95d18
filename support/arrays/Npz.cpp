// Reads zip archives by their central directory, APPNOTE 6.3.

#include "support/arrays/Npz.h"

#include "support/arrays/Npy.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <new>
#include <zlib.h>

namespace polyrank {
namespace {

constexpr uint32_t localMagic = 0x04034b50, centralMagic = 0x02014b50,
                   endMagic = 0x06054b50, end64Magic = 0x06064b50,
                   locatorMagic = 0x07064b50;
constexpr uint64_t localSize = 30, centralSize = 46, endSize = 22,
                   end64Size = 56, locatorSize = 20;
constexpr uint64_t directoryLimit = 64 << 20;
constexpr uint16_t encryptedFlag = 1;
enum Method : uint16_t { Stored = 0, Deflated = 8 };

template <typename T>
T get(const std::byte *bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

struct Member {
  std::string name;
  uint16_t method = 0;
  uint32_t checksum = 0;
  uint64_t compressed = 0, size = 0, local = 0;
  uint64_t data = 0; // offset of the (compressed) bytes
};

struct Directory {
  uint64_t offset = 0, size = 0, count = 0;
};

class Archive {
public:
  explicit Archive(std::shared_ptr<const InputFile> file)
      : file(std::move(file)) {}

  Result<std::vector<Member>> members() const;
  Result<StoredArray> array(const Member &member,
                            const std::string &name) const;

private:
  Error bad(const std::string &what) const {
    return {file->path() + ": not a .npz set that can be read: " + what};
  }
  Result<Directory> findDirectory() const;
  Result<Member> parseCentral(std::span<const std::byte> directory,
                              uint64_t &cursor) const;
  Result<void> locateData(Member &member, uint64_t directoryOffset) const;
  Result<std::vector<std::byte>> inflated(const Member &member) const;

  std::shared_ptr<const InputFile> file;
};

Result<Directory> Archive::findDirectory() const {
  uint64_t size = file->size();
  std::vector<std::byte> tail(std::min<uint64_t>(size, endSize + 0xffff));
  uint64_t tailOffset = size - tail.size();
  if (auto done = file->readAt(tailOffset, tail.data(), tail.size()); !done)
    return done.error();
  // The end record is followed by a comment of the length that it says.
  for (int64_t at = int64_t(tail.size()) - int64_t(endSize); at >= 0; --at) {
    const std::byte *end = tail.data() + at;
    if (get<uint32_t>(end) != endMagic ||
        get<uint16_t>(end + 20) != tail.size() - at - endSize)
      continue;
    Directory directory{get<uint32_t>(end + 16), get<uint32_t>(end + 12),
                        get<uint16_t>(end + 10)};
    if (get<uint16_t>(end + 4) != 0 || get<uint16_t>(end + 6) != 0)
      return bad("it has several parts");
    bool wide = directory.offset == 0xffffffff ||
                directory.size == 0xffffffff || directory.count == 0xffff;
    uint64_t directoryEnd = tailOffset + at;
    if (wide) {
      if (directoryEnd < locatorSize + end64Size)
        return bad("no zip64 end record");
      std::byte locator[locatorSize], record[end64Size];
      if (auto done =
              file->readAt(directoryEnd - locatorSize, locator, locatorSize);
          !done)
        return done.error();
      uint64_t where = get<uint64_t>(locator + 8);
      if (get<uint32_t>(locator) != locatorMagic ||
          where != directoryEnd - locatorSize - end64Size)
        return bad("no zip64 end record");
      if (auto done = file->readAt(where, record, end64Size); !done)
        return done.error();
      if (get<uint32_t>(record) != end64Magic)
        return bad("no zip64 end record");
      directory = {get<uint64_t>(record + 48), get<uint64_t>(record + 40),
                   get<uint64_t>(record + 32)};
      directoryEnd = where;
    }
    if (directory.size > directoryLimit || directory.offset > directoryEnd ||
        directory.size != directoryEnd - directory.offset ||
        directory.count > directory.size / centralSize)
      return bad("its directory is not where its end says");
    return directory;
  }
  return bad("it has no end record");
}

Result<Member> Archive::parseCentral(std::span<const std::byte> directory,
                                     uint64_t &cursor) const {
  if (directory.size() - cursor < centralSize)
    return bad("its directory is cut off");
  const std::byte *at = directory.data() + cursor;
  uint64_t nameSize = get<uint16_t>(at + 28),
           extraSize = get<uint16_t>(at + 30),
           commentSize = get<uint16_t>(at + 32);
  if (get<uint32_t>(at) != centralMagic ||
      directory.size() - cursor - centralSize <
          nameSize + extraSize + commentSize)
    return bad("its directory is malformed");
  Member member;
  member.name.assign(reinterpret_cast<const char *>(at + centralSize),
                     nameSize);
  member.method = get<uint16_t>(at + 10);
  member.checksum = get<uint32_t>(at + 16);
  member.compressed = get<uint32_t>(at + 20);
  member.size = get<uint32_t>(at + 24);
  member.local = get<uint32_t>(at + 42);
  if (get<uint16_t>(at + 8) & encryptedFlag)
    return bad("'" + member.name + "' is encrypted");
  // The zip64 field holds, in this order, what did not fit above.
  const std::byte *extra = at + centralSize + nameSize;
  for (uint64_t e = 0; extraSize - e >= 4;) {
    uint16_t tag = get<uint16_t>(extra + e),
             size = get<uint16_t>(extra + e + 2);
    e += 4;
    if (size > extraSize - e)
      return bad("'" + member.name + "' has a malformed extra field");
    uint64_t used = 0;
    for (uint64_t *field : {&member.size, &member.compressed, &member.local})
      if (tag == 1 && *field == 0xffffffff) {
        if (size - used < 8)
          return bad("'" + member.name + "' has a malformed zip64 field");
        *field = get<uint64_t>(extra + e + used);
        used += 8;
      }
    e += size;
  }
  cursor += centralSize + nameSize + extraSize + commentSize;
  return member;
}

/// The local header must tell the same story as the directory.
Result<void> Archive::locateData(Member &member,
                                 uint64_t directoryOffset) const {
  if (member.local > directoryOffset ||
      directoryOffset - member.local < localSize)
    return bad("'" + member.name + "' lies outside the file");
  std::byte header[localSize];
  if (auto done = file->readAt(member.local, header, localSize); !done)
    return done;
  uint64_t nameSize = get<uint16_t>(header + 26),
           extraSize = get<uint16_t>(header + 28);
  std::string name(nameSize, '\0');
  uint64_t rest = directoryOffset - member.local - localSize;
  if (get<uint32_t>(header) != localMagic ||
      get<uint16_t>(header + 8) != member.method ||
      nameSize != member.name.size() || nameSize + extraSize > rest)
    return bad("the two headers of '" + member.name + "' disagree");
  if (auto done = file->readAt(member.local + localSize, name.data(), nameSize);
      !done)
    return done;
  if (name != member.name)
    return bad("the two headers of '" + member.name + "' disagree");
  member.data = member.local + localSize + nameSize + extraSize;
  if (member.compressed > rest - nameSize - extraSize)
    return bad("'" + member.name + "' goes beyond the file");
  if (member.method == Stored && member.compressed != member.size)
    return bad("'" + member.name + "' has two sizes");
  return {};
}

Result<std::vector<Member>> Archive::members() const {
  POLYRANK_ASSIGN(directory, findDirectory());
  std::vector<std::byte> bytes(directory.size);
  if (auto done = file->readAt(directory.offset, bytes.data(), bytes.size());
      !done)
    return done.error();
  std::vector<Member> members;
  std::map<std::string, int> names;
  uint64_t cursor = 0;
  for (uint64_t m = 0; m < directory.count; ++m) {
    POLYRANK_ASSIGN(member, parseCentral(bytes, cursor));
    if (++names[member.name] > 1)
      return bad("two members are called '" + member.name + "'");
    if (auto done = locateData(member, directory.offset); !done)
      return done.error();
    members.push_back(std::move(member));
  }
  if (cursor != bytes.size())
    return bad("its directory is longer than its entries");
  std::vector<Member> ordered = members;
  std::sort(ordered.begin(), ordered.end(),
            [](auto &a, auto &b) { return a.local < b.local; });
  for (size_t m = 1; m < ordered.size(); ++m)
    if (ordered[m - 1].data + ordered[m - 1].compressed > ordered[m].local)
      return bad("'" + ordered[m - 1].name + "' and '" + ordered[m].name +
                 "' overlap");
  return members;
}

Result<std::vector<std::byte>> Archive::inflated(const Member &member) const {
  std::string where = file->path() + ", '" + member.name + "'";
  // Deflate makes nothing smaller than 1/1032: a larger size is a lie, and
  // memory is taken only for what the compressed bytes can fill.
  if (member.size / 1032 > member.compressed)
    return Error{where + ": cannot inflate to " + std::to_string(member.size) +
                 " bytes"};
  std::vector<std::byte> result;
  try {
    result.resize(member.size);
  } catch (const std::bad_alloc &) {
    return Error{where + ": no memory for " + std::to_string(member.size) +
                 " bytes; save it uncompressed (numpy.savez), then it is read "
                 "row by row"};
  }
  std::vector<std::byte> input(std::min<uint64_t>(member.compressed, 1 << 20));
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK)
    return Error{where + ": zlib does not start"};
  struct Guard {
    z_stream &stream;
    ~Guard() { inflateEnd(&stream); }
  } guard{stream};
  uint64_t read = 0, produced = 0;
  int status = Z_OK;
  while (status == Z_OK) {
    if (stream.avail_in == 0 && read < member.compressed) {
      uint64_t n = std::min<uint64_t>(input.size(), member.compressed - read);
      if (auto done = file->readAt(member.data + read, input.data(), n); !done)
        return done.error();
      read += n;
      stream.next_in = reinterpret_cast<Bytef *>(input.data());
      stream.avail_in = static_cast<uInt>(n);
    }
    uint64_t room = std::min<uint64_t>(result.size() - produced, 1 << 30);
    std::byte overflow;
    bool full = room == 0; // give it one byte, which it must not use
    stream.next_out =
        reinterpret_cast<Bytef *>(full ? &overflow : result.data() + produced);
    stream.avail_out = full ? 1 : static_cast<uInt>(room);
    uint32_t before = stream.avail_out;
    status = inflate(&stream, Z_NO_FLUSH);
    uint32_t made = before - stream.avail_out;
    if (full && made > 0)
      break;
    produced += made;
  }
  bool whole = status == Z_STREAM_END && produced == member.size &&
               read == member.compressed && stream.avail_in == 0;
  uLong checksum = crc32(0, nullptr, 0);
  if (whole)
    checksum = crc32_z(checksum, reinterpret_cast<const Bytef *>(result.data()),
                       result.size());
  if (!whole || checksum != member.checksum)
    return Error{where + ": is damaged (it does not inflate to the size and "
                         "checksum that the archive states)"};
  return result;
}

Result<StoredArray> Archive::array(const Member &member,
                                   const std::string &name) const {
  std::string where = file->path() + ", array '" + name + "'";
  if (member.method == Stored) {
    std::vector<std::byte> start(std::min(member.size, npyHeaderLimit));
    if (auto done = file->readAt(member.data, start.data(), start.size());
        !done)
      return done.error();
    POLYRANK_ASSIGN(header, parseNpyHeader(start, member.size, where));
    return StoredArray(name, header.type, header.shape, file,
                       member.data + header.dataOffset);
  }
  if (member.method != Deflated)
    return Error{where + ": compressed by method " +
                 std::to_string(member.method) +
                 "; numpy.savez and savez_compressed write what is read here"};
  POLYRANK_ASSIGN(bytes, inflated(member));
  POLYRANK_ASSIGN(header, parseNpyHeader(bytes, bytes.size(), where));
  bytes.erase(bytes.begin(), bytes.begin() + header.dataOffset);
  return StoredArray(name, header.type, header.shape, file, std::move(bytes));
}

} // namespace

Result<std::vector<StoredArray>> openNpz(const std::string &path) {
  POLYRANK_ASSIGN(file, InputFile::open(path));
  Archive archive(std::make_shared<InputFile>(std::move(file)));
  POLYRANK_ASSIGN(members, archive.members());
  std::vector<StoredArray> arrays;
  for (const Member &member : members) {
    if (!member.name.ends_with(".npy"))
      continue;
    std::string name = member.name.substr(0, member.name.size() - 4);
    POLYRANK_ASSIGN(array, archive.array(member, name));
    arrays.push_back(std::move(array));
  }
  return arrays;
}

} // namespace polyrank
