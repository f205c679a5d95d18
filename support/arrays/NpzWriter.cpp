// Writes stored .npz members one after another, with zip64 fields throughout.

#include "support/arrays/Npz.h"

#include "support/ElementValues.h"
#include "support/arrays/Npy.h"

#include <cstdio>
#include <cstring>
#include <zlib.h>

namespace polyrank {
namespace {

template <typename T>
void put(std::string &text, T value) {
  text.append(reinterpret_cast<const char *>(&value), sizeof(T));
}

/// The type in which NumPy holds such elements: itself, or a wider float.
ElementType numpyType(ElementType type) {
  return rowOf(type).npy.empty() ? rowOf(type).accumulator : type;
}

/// NumPy's name of a type that it has, with the byte order.
std::string descriptionOf(ElementType type) {
  return (bytesOf(type) > 1 ? "<" : "|") + std::string(rowOf(type).npy);
}

// What the local and the central header share: from the version needed to the
// sizes, which are in the zip64 field.
constexpr uint16_t version = 45, storedMethod = 0;
constexpr uint16_t epochDate = 0x21; // 1980-01-01: output is reproducible
constexpr uint32_t inZip64Field = 0xffffffff;

void putCommon(std::string &text, uint32_t checksum, size_t nameSize,
               uint16_t extraSize) {
  put(text, version);
  put<uint16_t>(text, 0x800); // names are UTF-8
  put(text, storedMethod);
  put<uint16_t>(text, 0);
  put(text, epochDate);
  put(text, checksum);
  put(text, inZip64Field);
  put(text, inZip64Field);
  put(text, static_cast<uint16_t>(nameSize));
  put(text, extraSize);
}

} // namespace

Result<NpzWriter> NpzWriter::create(const std::string &path) {
  POLYRANK_ASSIGN(file, OutputFile::create(path));
  return NpzWriter(std::move(file));
}

Result<void> NpzWriter::append(const void *data, uint64_t size) {
  if (auto done = writeAt(file.descriptor(), file.path(), position, data, size);
      !done)
    return done;
  position += size;
  return {};
}

Result<void> NpzWriter::add(const std::string &name, ElementType dtype,
                            std::span<const int64_t> shape,
                            std::span<const std::byte> data) {
  std::vector<float> widened;
  if (dtype == ElementType::BF16) {
    for (size_t n = 0; n + 1 < data.size(); n += 2)
      widened.push_back(loadElement<BFloat16>(data.data() + n));
    data = std::as_bytes(std::span(widened));
  }
  dtype = numpyType(dtype);
  uint64_t expected = bytesOf(dtype);
  for (int64_t extent : shape)
    expected *= extent;
  if (expected != data.size() || name.size() > 1000)
    return Error{file.path() + ": array '" + name + "' has " +
                 std::to_string(data.size()) + " bytes instead of " +
                 std::to_string(expected)};
  std::string header = makeNpyHeader(descriptionOf(dtype), shape);
  auto *headerBytes = reinterpret_cast<const Bytef *>(header.data());
  uLong checksum = crc32_z(crc32(0, nullptr, 0), headerBytes, header.size());
  checksum = crc32_z(checksum, reinterpret_cast<const Bytef *>(data.data()),
                     data.size());
  Member member{name + ".npy", static_cast<uint32_t>(checksum),
                header.size() + data.size(), position};
  std::string local;
  put<uint32_t>(local, 0x04034b50);
  putCommon(local, member.checksum, member.name.size(), 20);
  local += member.name;
  put<uint16_t>(local, 1);
  put<uint16_t>(local, 16);
  put(local, member.size);
  put(local, member.size);
  for (std::span<const char> part :
       {std::span<const char>(local), std::span<const char>(header),
        std::span<const char>(reinterpret_cast<const char *>(data.data()),
                              data.size())})
    if (auto done = append(part.data(), part.size()); !done)
      return done;
  members.push_back(std::move(member));
  return {};
}

Result<void> NpzWriter::commit() {
  std::string directory;
  for (const Member &member : members) {
    put<uint32_t>(directory, 0x02014b50);
    put(directory, version);
    putCommon(directory, member.checksum, member.name.size(), 28);
    put<uint16_t>(directory, 0); // comment
    put<uint16_t>(directory, 0); // part
    put<uint16_t>(directory, 0); // internal attributes
    put<uint32_t>(directory, 0); // external attributes
    put(directory, inZip64Field);
    directory += member.name;
    put<uint16_t>(directory, 1);
    put<uint16_t>(directory, 24);
    put(directory, member.size);
    put(directory, member.size);
    put(directory, member.offset);
  }
  uint64_t start = position, size = directory.size(), count = members.size();
  put<uint32_t>(directory, 0x06064b50);
  put<uint64_t>(directory, 44); // of the rest of this record
  put(directory, version);
  put(directory, version);
  put<uint32_t>(directory, 0);
  put<uint32_t>(directory, 0);
  put(directory, count);
  put(directory, count);
  put(directory, size);
  put(directory, start);
  put<uint32_t>(directory, 0x07064b50);
  put<uint32_t>(directory, 0);
  put(directory, start + size);
  put<uint32_t>(directory, 1);
  put<uint32_t>(directory, 0x06054b50);
  put<uint32_t>(directory, 0);
  put<uint16_t>(directory, 0xffff);
  put<uint16_t>(directory, 0xffff);
  put<uint32_t>(directory, 0xffffffff);
  put<uint32_t>(directory, 0xffffffff);
  put<uint16_t>(directory, 0);
  if (auto done = append(directory.data(), directory.size()); !done)
    return done;
  return file.commit();
}

} // namespace polyrank
