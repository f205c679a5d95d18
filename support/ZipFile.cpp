// Reads zip archives from untrusted sources, by their central directory
// (APPNOTE 6.3).

#include "support/ZipFile.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <span>
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
constexpr uint32_t wide32 = 0xffffffff; // the value is stored in 64 bits
                                        // elsewhere
constexpr uint16_t wide16 = 0xffff;

template <typename T>
T get(const std::byte *bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

struct Directory {
  uint64_t offset = 0, size = 0, count = 0;
};

/// Reads the directory of the archive in [begin, begin + length) of `file`. All
/// offsets are relative to the archive.
class DirectoryReader {
public:
  DirectoryReader(const InputFile &file, const std::string &kind,
                  uint64_t begin, uint64_t length)
      : file(file), kind(kind), begin(begin), length(length) {}

  Result<std::vector<ZipMember>> read() const;

private:
  Error bad(const std::string &what) const {
    return {file.path() + ": not " + kind + " that can be read: " + what};
  }
  Result<void> readAt(uint64_t offset, void *into, uint64_t size) const {
    return file.readAt(begin + offset, into, size);
  }
  Result<Directory> find() const;
  /// Takes the 64-bit numbers from the zip64 record before the end record at
  /// `end`, if there is one; `end` then moves to it.
  Result<void> widen(Directory &directory, uint64_t &end) const;
  /// `local` receives the place of the member's local header.
  Result<ZipMember> parseCentral(std::span<const std::byte> directory,
                                 uint64_t &cursor, uint64_t &local) const;
  Result<void> locate(ZipMember &member, uint64_t local,
                      uint64_t directoryOffset) const;
  Result<void> checkName(const std::string &name) const;

  const InputFile &file;
  const std::string &kind;
  const uint64_t begin, length;
};

Result<void> DirectoryReader::widen(Directory &directory, uint64_t &end) const {
  bool isWide = directory.offset == wide32 || directory.size == wide32 ||
                directory.count == wide16;
  std::byte locator[locatorSize], record[end64Size];
  bool has = end >= locatorSize + end64Size;
  if (has) {
    if (auto done = readAt(end - locatorSize, locator, locatorSize); !done)
      return done;
    has = get<uint32_t>(locator) == locatorMagic;
  }
  if (!has)
    return isWide ? Result<void>(bad("no zip64 end record")) : Result<void>();
  uint64_t where = get<uint64_t>(locator + 8);
  if (where != end - locatorSize - end64Size)
    return bad("no zip64 end record");
  if (auto done = readAt(where, record, end64Size); !done)
    return done;
  if (get<uint32_t>(record) != end64Magic)
    return bad("no zip64 end record");
  Directory wide = {get<uint64_t>(record + 48), get<uint64_t>(record + 40),
                    get<uint64_t>(record + 32)};
  auto agree = [](uint64_t narrow, uint64_t wide, uint64_t escape) {
    return narrow == wide || narrow == escape;
  };
  if (!agree(directory.offset, wide.offset, wide32) ||
      !agree(directory.size, wide.size, wide32) ||
      !agree(directory.count, wide.count, wide16))
    return bad("its two end records disagree");
  directory = wide;
  end = where;
  return {};
}

Result<Directory> DirectoryReader::find() const {
  std::vector<std::byte> tail(std::min<uint64_t>(length, endSize + 0xffff));
  uint64_t tailOffset = length - tail.size();
  if (auto done = readAt(tailOffset, tail.data(), tail.size()); !done)
    return done.error();
  // The end record is followed by a comment of the length that it gives.
  for (int64_t at = int64_t(tail.size()) - int64_t(endSize); at >= 0; --at) {
    const std::byte *record = tail.data() + at;
    if (get<uint32_t>(record) != endMagic ||
        get<uint16_t>(record + 20) != tail.size() - at - endSize)
      continue;
    Directory directory{get<uint32_t>(record + 16), get<uint32_t>(record + 12),
                        get<uint16_t>(record + 10)};
    if (get<uint16_t>(record + 4) != 0 || get<uint16_t>(record + 6) != 0)
      return bad("it has several parts");
    uint64_t end = tailOffset + at;
    if (auto done = widen(directory, end); !done)
      return done.error();
    if (directory.size > directoryLimit || directory.offset > end ||
        directory.size != end - directory.offset ||
        directory.count > directory.size / centralSize)
      return bad("its directory is not where its end says");
    return directory;
  }
  return bad("it has no end record");
}

/// Refuses a name that would unpack to a place outside the folder.
Result<void> DirectoryReader::checkName(const std::string &name) const {
  bool leaves = name.empty() || name.front() == '/' ||
                name.find('\\') != name.npos || name.find('\0') != name.npos;
  for (size_t start = 0; start <= name.size();) {
    size_t end = std::min(name.find('/', start), name.size());
    leaves |= name.compare(start, end - start, "..") == 0;
    start = end + 1;
  }
  if (leaves)
    return bad("the name '" + name + "' of a member leaves the archive");
  return {};
}

Result<ZipMember>
DirectoryReader::parseCentral(std::span<const std::byte> directory,
                              uint64_t &cursor, uint64_t &local) const {
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
  ZipMember member;
  member.name.assign(reinterpret_cast<const char *>(at + centralSize),
                     nameSize);
  member.method = get<uint16_t>(at + 10);
  member.checksum = get<uint32_t>(at + 16);
  member.compressed = get<uint32_t>(at + 20);
  member.size = get<uint32_t>(at + 24);
  local = get<uint32_t>(at + 42);
  if (auto done = checkName(member.name); !done)
    return done.error();
  if (get<uint16_t>(at + 8) & encryptedFlag)
    return bad("'" + member.name + "' is encrypted");
  // The zip64 field holds, in this order, the values that did not fit above.
  const std::byte *extra = at + centralSize + nameSize;
  for (uint64_t e = 0; extraSize - e >= 4;) {
    uint16_t tag = get<uint16_t>(extra + e),
             size = get<uint16_t>(extra + e + 2);
    e += 4;
    if (size > extraSize - e)
      return bad("'" + member.name + "' has a malformed extra field");
    uint64_t used = 0;
    for (uint64_t *field : {&member.size, &member.compressed, &local})
      if (tag == 1 && *field == wide32) {
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

/// Checks that the local header agrees with the directory.
Result<void> DirectoryReader::locate(ZipMember &member, uint64_t local,
                                     uint64_t directoryOffset) const {
  if (local > directoryOffset || directoryOffset - local < localSize)
    return bad("'" + member.name + "' lies outside the file");
  std::byte header[localSize];
  if (auto done = readAt(local, header, localSize); !done)
    return done;
  uint64_t nameSize = get<uint16_t>(header + 26),
           extraSize = get<uint16_t>(header + 28);
  std::string name(nameSize, '\0');
  uint64_t rest = directoryOffset - local - localSize;
  if (get<uint32_t>(header) != localMagic ||
      get<uint16_t>(header + 8) != member.method ||
      nameSize != member.name.size() || nameSize + extraSize > rest)
    return bad("the two headers of '" + member.name + "' disagree");
  if (auto done = readAt(local + localSize, name.data(), nameSize); !done)
    return done;
  if (name != member.name)
    return bad("the two headers of '" + member.name + "' disagree");
  member.offset = local + localSize + nameSize + extraSize;
  if (member.compressed > rest - nameSize - extraSize)
    return bad("'" + member.name + "' goes beyond the file");
  if (member.isStored() && member.compressed != member.size)
    return bad("'" + member.name + "' has two sizes");
  return {};
}

Result<std::vector<ZipMember>> DirectoryReader::read() const {
  POLYRANK_ASSIGN(directory, find());
  std::vector<std::byte> bytes(directory.size);
  if (auto done = readAt(directory.offset, bytes.data(), bytes.size()); !done)
    return done.error();
  std::vector<ZipMember> members;
  /// The range from a member's local header to the end of its data.
  struct Extent {
    uint64_t begin, end;
    size_t member;
  };
  std::vector<Extent> extents;
  std::map<std::string_view, int> names;
  uint64_t cursor = 0;
  members.reserve(directory.count); // names are views into them
  for (uint64_t m = 0; m < directory.count; ++m) {
    uint64_t local = 0;
    POLYRANK_ASSIGN(parsed, parseCentral(bytes, cursor, local));
    ZipMember &member = members.emplace_back(std::move(parsed));
    if (++names[member.name] > 1)
      return bad("two members are called '" + member.name + "'");
    if (auto done = locate(member, local, directory.offset); !done)
      return done.error();
    extents.push_back({local, member.offset + member.compressed, m});
  }
  if (cursor != bytes.size())
    return bad("its directory is longer than its entries");
  std::sort(extents.begin(), extents.end(),
            [](auto &a, auto &b) { return a.begin < b.begin; });
  for (size_t m = 1; m < extents.size(); ++m)
    if (extents[m - 1].end > extents[m].begin)
      return bad("'" + members[extents[m - 1].member].name + "' and '" +
                 members[extents[m].member].name + "' overlap");
  for (ZipMember &member : members)
    member.offset += begin;
  return members;
}

/// Inflates the `compressed` bytes of `file` at `offset` until `into` is full;
/// returns false if they do not end there.
Result<bool> inflateInto(const InputFile &file, const ZipMember &member,
                         std::vector<std::byte> &into) {
  std::vector<std::byte> input(std::min<uint64_t>(member.compressed, 1 << 20));
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK)
    return Error{file.path() + ": zlib does not start"};
  struct Guard {
    z_stream &stream;
    ~Guard() { inflateEnd(&stream); }
  } guard{stream};
  uint64_t read = 0, produced = 0;
  int status = Z_OK;
  while (status == Z_OK) {
    if (stream.avail_in == 0 && read < member.compressed) {
      uint64_t n = std::min<uint64_t>(input.size(), member.compressed - read);
      if (auto done = file.readAt(member.offset + read, input.data(), n); !done)
        return done.error();
      read += n;
      stream.next_in = reinterpret_cast<Bytef *>(input.data());
      stream.avail_in = static_cast<uInt>(n);
    }
    uint64_t room = std::min<uint64_t>(into.size() - produced, 1 << 30);
    std::byte overflow;
    bool full = room == 0; // give it one byte, which must stay unused
    stream.next_out =
        reinterpret_cast<Bytef *>(full ? &overflow : into.data() + produced);
    stream.avail_out = full ? 1 : static_cast<uInt>(room);
    uint32_t before = stream.avail_out;
    status = inflate(&stream, Z_NO_FLUSH);
    uint32_t made = before - stream.avail_out;
    if (full && made > 0)
      break;
    produced += made;
  }
  return status == Z_STREAM_END && produced == member.size &&
         read == member.compressed && stream.avail_in == 0;
}

} // namespace

Result<ZipFile> ZipFile::open(std::shared_ptr<const InputFile> file,
                              std::string kind) {
  uint64_t length = file->size();
  return open(std::move(file), std::move(kind), 0, length);
}

Result<ZipFile> ZipFile::open(std::shared_ptr<const InputFile> file,
                              std::string kind, uint64_t begin, uint64_t length,
                              std::shared_ptr<Budget> budget) {
  POLYRANK_ASSIGN(members, DirectoryReader(*file, kind, begin, length).read());
  ZipFile zip;
  zip.spent =
      budget ? std::move(budget) : std::make_shared<Budget>(file->size());
  zip.source = std::move(file);
  zip.entries = std::move(members);
  for (size_t m = 0; m < zip.entries.size(); ++m)
    zip.byName[zip.entries[m].name] = m;
  return zip;
}

const ZipMember *ZipFile::find(std::string_view name) const {
  auto found = byName.find(name);
  return found == byName.end() ? nullptr : &entries[found->second];
}

Result<std::vector<std::byte>> ZipFile::read(const ZipMember &member,
                                             uint64_t limit) const {
  std::string where = source->path() + ", '" + member.name + "'";
  if (!member.isStored() && member.method != ZipMember::Deflated)
    return Error{where + ": is compressed by method " +
                 std::to_string(member.method) +
                 "; stored and deflated members are read"};
  if (member.size > limit)
    return Error{where + ": has " + std::to_string(member.size) +
                 " bytes, where at most " + std::to_string(limit) +
                 " are read"};
  if (!member.isStored() && member.size / 1032 > member.compressed)
    return Error{where + ": cannot inflate to " + std::to_string(member.size) +
                 " bytes"};
  if (!spent->take(member.size))
    return Error{where + ": has " + std::to_string(member.size) +
                 " bytes, and " + spent->describe()};
  std::vector<std::byte> content;
  try {
    content.resize(member.size);
  } catch (const std::bad_alloc &) {
    return Error{where + ": no memory for " + std::to_string(member.size) +
                 " bytes"};
  }
  bool isWhole = true;
  if (member.isStored()) {
    if (auto done = source->readAt(member.offset, content.data(), member.size);
        !done)
      return done.error();
  } else {
    POLYRANK_ASSIGN(inflated, inflateInto(*source, member, content));
    isWhole = inflated;
  }
  uLong checksum = crc32(0, nullptr, 0);
  if (isWhole)
    checksum =
        crc32_z(checksum, reinterpret_cast<const Bytef *>(content.data()),
                content.size());
  if (!isWhole || checksum != member.checksum)
    return Error{where + ": is damaged (its content has not the size and the "
                         "checksum that the archive states)"};
  return content;
}

} // namespace polyrank
