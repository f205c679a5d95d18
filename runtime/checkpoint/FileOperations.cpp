// The system's calls.

#include "runtime/checkpoint/FileOperations.h"

#include "support/Failpoint.h"

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

bool isToFail(const char *point) {
  int code = failpoint(point);
  if (code)
    errno = code;
  return code != 0;
}

} // namespace

Result<Descriptor> FileOperations::create(const std::string &path) {
  if (isToFail("checkpoint.before_create"))
    return diskError(path, "cannot be made");
  Descriptor file(
      open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (file.get() < 0)
    return diskError(path, "cannot be made");
  failpoint("checkpoint.after_create");
  return std::move(file);
}

Result<void> FileOperations::sync(const Descriptor &file,
                                  const std::string &path) {
  if (isToFail("checkpoint.before_sync") || fsync(file.get()) != 0)
    return diskError(path, "cannot be synced");
  failpoint("checkpoint.after_sync");
  return {};
}

Result<void> FileOperations::makeFolder(const std::string &path) {
  if (mkdir(path.c_str(), 0777) != 0 && errno != EEXIST)
    return diskError(path, "cannot be made");
  return {};
}

Result<void> FileOperations::syncFolder(const std::string &path) {
  if (isToFail("checkpoint.before_folder_sync"))
    return diskError(path, "cannot be synced");
  if (Result<void> synced = polyrank::syncFolder(path); !synced)
    return synced;
  failpoint("checkpoint.after_folder_sync");
  return {};
}

Result<void> FileOperations::rename(const std::string &from,
                                    const std::string &to) {
  if (isToFail("checkpoint.before_rename"))
    return diskError(from, ("cannot be renamed to " + to).c_str());
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(),
                RENAME_NOREPLACE) == 0) {
    failpoint("checkpoint.after_rename");
    return {};
  }
  // The file system lacks this call; rename() does not replace a folder that is
  // not empty either.
  if ((errno == EINVAL || errno == ENOSYS) &&
      ::rename(from.c_str(), to.c_str()) == 0)
    return {};
  return diskError(from, ("cannot be renamed to " + to).c_str());
}

Result<void> FileOperations::replace(const std::string &from,
                                     const std::string &to) {
  if (isToFail("checkpoint.before_replace") ||
      ::rename(from.c_str(), to.c_str()) != 0)
    return diskError(from, ("cannot be renamed to " + to).c_str());
  failpoint("checkpoint.after_replace");
  return {};
}

Result<void> FileOperations::removeFile(const std::string &path) {
  if (isToFail("checkpoint.before_remove"))
    return diskError(path, "cannot be removed");
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
