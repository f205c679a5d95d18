// Reads elements of an array, from a file or from memory.

#include "support/arrays/StoredArray.h"

#include "support/Failpoint.h"

#include <cerrno>
#include <cstring>

namespace polyrank {

StoredArray::StoredArray(std::string name, ElementType type,
                         std::vector<int64_t> shape,
                         std::shared_ptr<const InputFile> file, uint64_t offset)
    : title(std::move(name)), elementType(type), extents(std::move(shape)),
      file(std::move(file)), offset(offset) {}

StoredArray::StoredArray(std::string name, ElementType type,
                         std::vector<int64_t> shape,
                         std::shared_ptr<const InputFile> file,
                         std::vector<std::byte> contents)
    : title(std::move(name)), elementType(type), extents(std::move(shape)),
      file(std::move(file)), contents(std::move(contents)) {}

int64_t StoredArray::elements() const {
  int64_t product = 1; // readers have checked that it does not overflow
  for (int64_t extent : extents)
    product *= extent;
  return product;
}

Result<void> StoredArray::read(int64_t first, int64_t count,
                               std::byte *into) const {
  int64_t element = bytesOf(elementType);
  if (contents.empty()) {
    if (int failing = failpoint("data.before_read")) {
      errno = failing;
      return fileError(file->path(), "cannot be read");
    }
    return file->readAt(offset + first * element, into, count * element);
  }
  std::memcpy(into, contents.data() + first * element, count * element);
  return {};
}

Result<StoredArray> openRawArray(const std::string &path, ElementType type) {
  POLYRANK_ASSIGN(file, InputFile::open(path));
  int64_t element = bytesOf(type);
  if (file.size() % element != 0)
    return Error{path + ": " + std::to_string(file.size()) +
                 " bytes are not a whole number of " + longNameOf(type) +
                 " values; is it of another type?"};
  int64_t count = file.size() / element;
  return StoredArray(path, type, {count},
                     std::make_shared<InputFile>(std::move(file)), 0);
}

} // namespace polyrank
