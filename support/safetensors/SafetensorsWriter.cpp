// Lays out and writes safetensors files.

#include "support/safetensors/Safetensors.h"

#include "support/Failpoint.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <numeric>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

namespace polyrank {
namespace {

constexpr uint64_t headerLimit = 100'000'000, dataAlignment = 64;
constexpr uint64_t page = 4096;

/// The bytes of an element in the file.
int64_t elementBytes(const TensorSpec &tensor) {
  return bytesOf(tensor.dtype) * (tensor.complex ? 2 : 1);
}

/// Returns true if the text is UTF-8 (RFC 3629). Readers refuse any other
/// header.
bool isUtf8(std::string_view text) {
  for (size_t n = 0; n < text.size();) {
    auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
    unsigned char lead = at(n);
    size_t length = lead < 0x80                    ? 1
                    : lead >= 0xc2 && lead <= 0xdf ? 2
                    : lead >= 0xe0 && lead <= 0xef ? 3
                    : lead >= 0xf0 && lead <= 0xf4 ? 4
                                                   : 0;
    if (length == 0 || length > text.size() - n)
      return false;
    for (size_t i = 1; i < length; ++i)
      if ((at(n + i) & 0xc0) != 0x80)
        return false;
    unsigned char second = length > 1 ? at(n + 1) : 0;
    if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) ||
        (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second > 0x8f))
      return false;
    n += length;
  }
  return true;
}

void appendJsonString(std::string &json, std::string_view text) {
  json += '"';
  for (char c : text) {
    if (c == '"' || c == '\\') {
      json += '\\';
      json += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", c);
      json += escape;
    } else {
      json += c;
    }
  }
  json += '"';
}

} // namespace

Result<void> SafetensorsWriter::setLayout(
    std::span<const TensorSpec> tensors,
    const std::map<std::string, std::string> &metadata) {
  extents.resize(tensors.size());
  std::set<std::string_view> names{"__metadata__"};
  for (size_t t = 0; t < tensors.size(); ++t) {
    const TensorSpec &tensor = tensors[t];
    if (!names.insert(tensor.name).second || !isUtf8(tensor.name))
      return Error{path + ": tensor '" + tensor.name +
                   "' has a name that is reserved, taken or not UTF-8"};
    if (tensor.complex && (tensor.dtype != ElementType::F32 ||
                           tensor.shape.empty() || tensor.shape.back() != 2))
      return Error{path + ": tensor '" + tensor.name +
                   "' has complex numbers that are no pairs of F32"};
    uint64_t length = bytesOf(tensor.dtype);
    for (int64_t extent : tensor.shape)
      if (extent < 0 || __builtin_mul_overflow(length, extent, &length) ||
          length > uint64_t(1) << 60)
        return Error{path + ": tensor '" + tensor.name +
                     "' has an impossible shape"};
    extents[t].length = length;
  }
  // Larger elements first, so that all are aligned; then by name.
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    int64_t sizeA = elementBytes(tensors[a]), sizeB = elementBytes(tensors[b]);
    return sizeA != sizeB ? sizeA > sizeB : tensors[a].name < tensors[b].name;
  });

  header = "{";
  if (!metadata.empty()) {
    header += "\"__metadata__\":{";
    for (auto &[key, value] : metadata) {
      if (!isUtf8(key) || !isUtf8(value))
        return Error{path + ": metadata '" + key + "' is not UTF-8"};
      header += header.back() == '{' ? "" : ",";
      appendJsonString(header, key);
      header += ':';
      appendJsonString(header, value);
    }
    header += '}';
  }
  uint64_t position = 0;
  for (size_t t : order) {
    header += header.size() == 1 ? "" : ",";
    appendJsonString(header, tensors[t].name);
    bool complex = tensors[t].complex;
    header += std::string(":{\"dtype\":\"") +
              std::string(safetensorsName(complex ? ElementType::C64
                                                  : tensors[t].dtype)) +
              "\",\"shape\":[";
    for (size_t d = 0; d + complex < tensors[t].shape.size(); ++d)
      header += (d == 0 ? "" : ",") + std::to_string(tensors[t].shape[d]);
    uint64_t end = position + extents[t].length;
    header += "],\"data_offsets\":[" + std::to_string(position) + "," +
              std::to_string(end) + "]}";
    extents[t].offset = position;
    position = end;
  }
  header += '}';
  uint64_t dataStart =
      (8 + header.size() + dataAlignment - 1) / dataAlignment * dataAlignment;
  header.resize(dataStart - 8, ' ');
  if (header.size() > headerLimit)
    return Error{path + ": a safetensors header of " +
                 std::to_string(header.size()) +
                 " bytes is over the format's limit"};
  for (Extent &extent : extents)
    extent.offset += dataStart;
  fileSize = dataStart + position;
  dataSize = position;
  return {};
}

Result<SafetensorsWriter>
SafetensorsWriter::layOut(const std::string &path,
                          std::span<const TensorSpec> tensors,
                          const std::map<std::string, std::string> &metadata) {
  SafetensorsWriter writer;
  writer.path = path;
  if (auto done = writer.setLayout(tensors, metadata); !done)
    return done.error();
  return std::move(writer);
}

Result<SafetensorsWriter>
SafetensorsWriter::open(const std::string &path, int file,
                        std::span<const TensorSpec> tensors,
                        const std::map<std::string, std::string> &metadata) {
  POLYRANK_ASSIGN(writer, layOut(path, tensors, metadata));
  writer.descriptor = Descriptor(fcntl(file, F_DUPFD_CLOEXEC, 0));
  if (writer.descriptor.get() < 0)
    return fileError(path, "cannot be opened", Error::Fault::Rank);
  // Opens the same file, which has no name, for direct I/O.
  writer.direct =
      Descriptor(::open(("/proc/self/fd/" + std::to_string(file)).c_str(),
                        O_WRONLY | O_CLOEXEC | O_DIRECT));
  return std::move(writer);
}

Result<SafetensorsWriter>
SafetensorsWriter::create(const std::string &path, int file,
                          std::span<const TensorSpec> tensors,
                          const std::map<std::string, std::string> &metadata) {
  POLYRANK_ASSIGN(writer, open(path, file, tensors, metadata));
  // Reserves the space now, so that a full disk fails early, if the file system
  // can.
  int failing = failpoint("save.before_allocate");
  if (failing)
    errno = failing;
  if ((failing || fallocate(file, 0, 0, writer.fileSize) != 0) &&
      ((errno != EOPNOTSUPP && errno != ENOSYS) ||
       ftruncate(file, writer.fileSize) != 0))
    return fileError(
        path, "has no room for " + std::to_string(writer.fileSize) + " bytes",
        Error::Fault::Disk);
  uint64_t headerSize = writer.header.size();
  if (auto done = writeAt(writer.descriptor, path, 0, &headerSize, 8); !done)
    return done.error();
  if (auto done =
          writeAt(writer.descriptor, path, 8, writer.header.data(), headerSize);
      !done)
    return done.error();
  return std::move(writer);
}

Result<SafetensorsWriter>
SafetensorsWriter::join(const std::string &path, int file,
                        std::span<const TensorSpec> tensors,
                        const std::map<std::string, std::string> &metadata) {
  POLYRANK_ASSIGN(writer, open(path, file, tensors, metadata));
  struct stat status;
  if (fstat(file, &status) != 0)
    return fileError(path, "cannot be opened", Error::Fault::Rank);
  if (static_cast<uint64_t>(status.st_size) != writer.fileSize)
    return Error{path + ": has " + std::to_string(status.st_size) +
                     " bytes instead of " + std::to_string(writer.fileSize) +
                     ": the ranks write different tensors",
                 Error::Fault::Rank};
  return std::move(writer);
}

Result<void> SafetensorsWriter::checkHeader(int file) const {
  auto wrong = [&](const std::string &what) {
    return Error{path + ": " + what +
                     ": it was not written whole, so what was "
                     "there before stays",
                 Error::Fault::Rank};
  };
  struct stat status;
  if (fstat(file, &status) != 0)
    return fileError(path, "cannot be read", Error::Fault::Rank);
  if (static_cast<uint64_t>(status.st_size) != fileSize)
    return wrong("has " + std::to_string(status.st_size) +
                 " bytes instead of " + std::to_string(fileSize));
  uint64_t length = header.size();
  std::string expected(reinterpret_cast<const char *>(&length), 8), found;
  expected += header;
  found.resize(expected.size());
  for (size_t at = 0; at < found.size();) {
    ssize_t got = pread(file, found.data() + at, found.size() - at,
                        static_cast<off_t>(at));
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return fileError(path, "cannot be read", Error::Fault::Rank);
    at += static_cast<size_t>(got);
  }
  return found == expected ? Result<void>()
                           : wrong("does not begin with its header");
}

Result<void> SafetensorsWriter::write(size_t tensor, uint64_t begin,
                                      std::span<const std::byte> data) {
  const Extent &extent = extents[tensor];
  if (begin > extent.length || data.size() > extent.length - begin)
    return Error{path + ": bytes [" + std::to_string(begin) + ", " +
                 std::to_string(begin) + " + " + std::to_string(data.size()) +
                 ") of a tensor of " + std::to_string(extent.length)};
  return writeData(extent.offset + begin, data);
}

Result<void> SafetensorsWriter::writeData(uint64_t offset,
                                          std::span<const std::byte> data) {
  if (offset < dataBegin() || offset > fileSize ||
      data.size() > fileSize - offset)
    return Error{path + ": bytes [" + std::to_string(offset) + ", " +
                 std::to_string(offset) + " + " + std::to_string(data.size()) +
                 ") of data from " + std::to_string(dataBegin()) + " to " +
                 std::to_string(fileSize)};
  // The pages of the file that the data covers completely.
  uint64_t end = offset + data.size(),
           pages = std::min((offset + page - 1) / page * page, end),
           pagesEnd = std::max(end / page * page, pages);
  const std::byte *from = data.data() + (pages - offset);
  if (direct.get() < 0 || reinterpret_cast<uintptr_t>(from) % page != 0)
    pagesEnd = pages;
  Result<void> done =
      writeAt(descriptor, path, offset, data.data(), pages - offset);
  // If direct I/O fails although the file was opened for it, the data is
  // written through the page cache; an error of the disk will recur there.
  if (done && pagesEnd > pages &&
      !writeAt(direct, path, pages, from, pagesEnd - pages))
    pagesEnd = pages;
  if (done)
    done = writeAt(descriptor, path, pagesEnd, from + (pagesEnd - pages),
                   end - pagesEnd);
  if (!done)
    std::atomic_ref(failed).store(true);
  // A hint: the disk should start writing now, not only when finish() waits for
  // it.
  sync_file_range(descriptor.get(), static_cast<off64_t>(offset),
                  static_cast<off64_t>(data.size()), SYNC_FILE_RANGE_WRITE);
  return done;
}

Result<void> SafetensorsWriter::finish() {
  if (failed)
    return Error{path + ": a write has failed; the file cannot be finished",
                 Error::Fault::Disk};
  int failing = failpoint("save.before_sync");
  if (failing)
    errno = failing;
  if (failing || fsync(descriptor.get()) != 0) {
    failed = true;
    return fileError(path, "cannot be synced", Error::Fault::Disk);
  }
  failpoint("save.after_sync");
  return {};
}

} // namespace polyrank
