// A file that is mapped into memory as a whole.

#include "support/MappedFile.h"

#include "support/File.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace polyrank {

MappedFile::~MappedFile() {
  if (!contents.empty())
    munmap(const_cast<char *>(contents.data()), contents.size());
}

Result<MappedFile> MappedFile::open(const std::string &path) {
  // O_NONBLOCK: a named pipe must be refused, not waited for.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0)
    return Error{path + ": " + std::strerror(errno)};
  struct stat status;
  if (fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode))
    return Error{path + ": not a regular file"};
  if (status.st_size == 0)
    return Error{path + ": the file is empty"};
  void *address =
      mmap(nullptr, status.st_size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED)
    return Error{path + ": " + std::strerror(errno)};
  MappedFile mapped;
  mapped.contents = {static_cast<const char *>(address),
                     static_cast<size_t>(status.st_size)};
  return mapped;
}

} // namespace polyrank
