// .npz sets: the arrays among the members of a zip archive.

#include "support/arrays/Npz.h"

#include "support/ZipFile.h"
#include "support/arrays/Npy.h"

#include <algorithm>

namespace polyrank {
namespace {

Result<StoredArray> readArray(const ZipFile &zip, const ZipMember &member,
                              const std::string &name) {
  std::string where = zip.file()->path() + ", array '" + name + "'";
  if (member.isStored()) {
    std::vector<std::byte> start(std::min(member.size, npyHeaderLimit));
    if (auto done =
            zip.file()->readAt(member.offset, start.data(), start.size());
        !done)
      return done.error();
    POLYRANK_ASSIGN(header, parseNpyHeader(start, member.size, where));
    return StoredArray(name, header.type, header.shape, zip.file(),
                       member.offset + header.dataOffset);
  }
  if (member.method != ZipMember::Deflated)
    return Error{where + ": compressed by method " +
                 std::to_string(member.method) +
                 "; numpy.savez and savez_compressed write what is read here"};
  auto bytes = zip.read(member);
  if (!bytes)
    return bytes.error().saying(
        bytes.error().message +
        "; saved uncompressed (numpy.savez) it is read row by row");
  POLYRANK_ASSIGN(header, parseNpyHeader(*bytes, bytes->size(), where));
  bytes->erase(bytes->begin(), bytes->begin() + header.dataOffset);
  return StoredArray(name, header.type, header.shape, zip.file(),
                     std::move(*bytes));
}

} // namespace

Result<std::vector<StoredArray>> openNpz(const std::string &path) {
  POLYRANK_ASSIGN(file, InputFile::open(path));
  POLYRANK_ASSIGN(zip,
                  ZipFile::open(std::make_shared<InputFile>(std::move(file)),
                                "a .npz set"));
  std::vector<StoredArray> arrays;
  for (const ZipMember &member : zip.members()) {
    if (!member.name.ends_with(".npy"))
      continue;
    std::string name = member.name.substr(0, member.name.size() - 4);
    POLYRANK_ASSIGN(array, readArray(zip, member, name));
    arrays.push_back(std::move(array));
  }
  return arrays;
}

} // namespace polyrank
