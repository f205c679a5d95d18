// The system's calls.

#include "runtime/checkpoint/FileOperations.h"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace polyrank::runtime {
namespace {

Error diskError(const std::string &path, const char *what) {
  return fileError(path, what, Error::Fault::Disk);
}

} // namespace

Result<Descriptor> FileOperations::create(const std::string &path) {
  Descriptor file(
      open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (file.get() < 0)
    return diskError(path, "cannot be made");
  return std::move(file);
}

Result<void> FileOperations::sync(const Descriptor &file,
                                  const std::string &path) {
  if (fsync(file.get()) != 0)
    return diskError(path, "cannot be synced");
  return {};
}

Result<void> FileOperations::makeFolder(const std::string &path) {
  if (mkdir(path.c_str(), 0777) != 0 && errno != EEXIST)
    return diskError(path, "cannot be made");
  return {};
}

Result<void> FileOperations::syncFolder(const std::string &path) {
  Descriptor folder(
      open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY));
  // File systems without such a call say so.
  if (folder.get() < 0 || (fsync(folder.get()) != 0 && errno != EINVAL &&
                           errno != EOPNOTSUPP))
    return diskError(path, "cannot be synced");
  return {};
}

Result<void> FileOperations::rename(const std::string &from,
                                    const std::string &to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(),
                RENAME_NOREPLACE) == 0)
    return {};
  // Where the file system has no such call, a folder that is not empty is not
  // replaced either.
  if ((errno == EINVAL || errno == ENOSYS) &&
      ::rename(from.c_str(), to.c_str()) == 0)
    return {};
  return diskError(from, ("cannot be renamed to " + to).c_str());
}

Result<void> FileOperations::removeFile(const std::string &path) {
  if (unlink(path.c_str()) != 0)
    return diskError(path, "cannot be removed");
  return {};
}

Result<void> FileOperations::removeFolder(const std::string &path) {
  if (rmdir(path.c_str()) != 0)
    return diskError(path, "cannot be removed");
  return {};
}

} // namespace polyrank::runtime
