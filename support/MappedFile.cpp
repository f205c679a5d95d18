// A file that is mapped whole.

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

bool MappedFile::map(const std::string &path, std::string &error) {
  // O_NONBLOCK: a named pipe must be refused, not waited for.
  Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) {
    error = path + ": " + std::strerror(errno);
    return false;
  }
  struct stat status;
  if (fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    error = path + ": not a regular file";
    return false;
  }
  if (status.st_size == 0) {
    error = path + ": the file is empty";
    return false;
  }
  void *address =
      mmap(nullptr, status.st_size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED) {
    error = path + ": " + std::strerror(errno);
    return false;
  }
  contents = {static_cast<const char *>(address),
              static_cast<size_t>(status.st_size)};
  return true;
}

} // namespace polyrank
